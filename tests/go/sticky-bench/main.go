// Times franz-go's sticky strategies, as `cargo xtask peers` runs it:
//
//	sticky-bench once FILE
//	sticky-bench time FILE plan|wire WARM-UPS MEASURED MILLISECONDS
//
// It prints what it measured as JSON. The package that does the work is internal to franz-go; it is reached as a group's
// leader reaches it, through kgo.GroupBalancer. The span "plan" is
// ConsumerBalancer.BalanceOrError: from decoded metadata to a plan by
// topic name, under the cooperative protocol without what others must give up first. "wire" is MemberBalancer, BalanceOrError
// and IntoSyncAssignment: from the bytes of JoinGroup to the bytes of SyncGroup.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal("sticky-bench: ", err)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "once":
		return once(args[1])
	case len(args) == 6 && args[0] == "time":
		var pace [3]int
		for i := range pace {
			var err error
			if pace[i], err = strconv.Atoi(args[3+i]); err != nil {
				return err
			}
		}
		return measure(args[1], args[2], pace[0], pace[1], time.Duration(pace[2])*time.Millisecond)
	}
	return errors.New("takes once FILE or time FILE SPAN WARM-UPS MEASURED MILLISECONDS")
}

// once makes one plan in this fresh process.
func once(file string) error {
	leader, err := read(file)
	if err != nil {
		return err
	}
	members, err := leader.decode()
	if err != nil {
		return err
	}
	leader.members = nil
	resident, err := status("VmRSS")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := time.Now()
	plan, err := members.BalanceOrError(leader.topics)
	took := time.Since(begun)
	runtime.ReadMemStats(&after)
	if err != nil {
		return err
	}
	peak, err := status("VmHWM")
	if err != nil {
		return err
	}
	assigned := 0
	for _, topics := range plan.(*kgo.BalancePlan).AsMemberIDMap() {
		for _, partitions := range topics {
			assigned += len(partitions)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"nanoseconds":     took.Nanoseconds(),
		"assigned":        assigned,
		"resident_before": resident,
		"peak_resident":   peak,
		"allocated":       after.TotalAlloc - before.TotalAlloc,
	})
}

// measure makes plans after warm-up: the mean of each measured interval.
func measure(file, span string, warmUps, measured int, interval time.Duration) error {
	leader, err := read(file)
	if err != nil {
		return err
	}
	var plan func() error
	switch span {
	case "plan":
		// Balancing changes no member, so that they can be used again.
		members, err := leader.decode()
		if err != nil {
			return err
		}
		plan = func() error {
			_, err := members.BalanceOrError(leader.topics)
			return err
		}
	case "wire":
		plan = func() error {
			members, err := leader.decode()
			if err != nil {
				return err
			}
			plan, err := members.BalanceOrError(leader.topics)
			if err != nil {
				return err
			}
			plan.IntoSyncAssignment()
			return nil
		}
	default:
		return fmt.Errorf("there is no span %q", span)
	}
	var means []float64
	var allocated, plans uint64
	for i := range warmUps + measured {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		var n int
		for n == 0 || time.Since(begun) < interval {
			if err := plan(); err != nil {
				return err
			}
			n++
		}
		took := time.Since(begun)
		runtime.ReadMemStats(&after)
		if i >= warmUps {
			means = append(means, float64(took.Nanoseconds())/float64(n))
			allocated += after.TotalAlloc - before.TotalAlloc
			plans += uint64(n)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"nanoseconds": means,
		"allocated":   float64(allocated) / float64(max(plans, 1)),
	})
}

// status is a size from this process' status, in bytes.
func status(field string) (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, field+":"); ok {
			kibibytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return kibibytes * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no %s", field)
}
