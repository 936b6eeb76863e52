package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// output is what a member says. Lines are written whole, and at once.
type output struct {
	// prefix begins each line.
	prefix string
}

var writing sync.Mutex

func write(lines []byte) {
	writing.Lock()
	defer writing.Unlock()
	if _, err := os.Stdout.Write(lines); err != nil {
		os.Exit(1)
	}
}

// now is the time of the boot-time clock in microseconds.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err)
	}
	return t.Nano() / 1000
}

func (o output) say(kind, rest string) {
	line := fmt.Sprintf("%s%s %d %s", o.prefix, kind, now(), strings.ReplaceAll(rest, "\n", " "))
	write([]byte(strings.TrimRight(line, " ") + "\n"))
}

func (o output) records(fetches kgo.Fetches, time int64) {
	var lines bytes.Buffer
	fetches.EachRecord(func(r *kgo.Record) {
		fmt.Fprintf(&lines, "%srecord %d %s %d %d %s\n", o.prefix, time, r.Topic, r.Partition, r.Offset, r.Value)
	})
	write(lines.Bytes())
}

// word writes partitions as a word.
func word(partitions map[string][]int32) string {
	var topics []string
	for topic, numbers := range partitions {
		if len(numbers) == 0 {
			continue
		}
		slices.Sort(numbers)
		var list []string
		for _, number := range numbers {
			list = append(list, strconv.Itoa(int(number)))
		}
		topics = append(topics, topic+":"+strings.Join(list, ","))
	}
	if topics == nil {
		return "-"
	}
	slices.Sort(topics)
	return strings.Join(topics, ";")
}
