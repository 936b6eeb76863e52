package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leader is what a group's leader knows before it plans.
type leader struct {
	strategy kgo.GroupBalancer
	topics   map[string]int32
	members  []kmsg.JoinGroupResponseMember
}

// decode reads the members' metadata.
func (l *leader) decode() (*kgo.ConsumerBalancer, error) {
	members, _, err := l.strategy.MemberBalancer(l.members)
	if err != nil {
		return nil, err
	}
	return members.(*kgo.ConsumerBalancer), nil
}

// read reads a group of a file, whose format tests/benches/peers/input.rs tells.
func read(path string) (*leader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := reader{from: bufio.NewReader(file)}
	l := &leader{topics: make(map[string]int32)}
	switch strategy := in.string(); strategy {
	case "sticky":
		l.strategy = kgo.StickyBalancer()
	case "cooperative-sticky":
		l.strategy = kgo.CooperativeStickyBalancer()
	default:
		return nil, fmt.Errorf("there is no strategy %q here", strategy)
	}
	for left := in.int(); left > 0; left-- {
		// A broker's id and rack: franz-go reads racks only from a live cluster.
		in.int()
		in.string()
	}
	for left := in.int(); left > 0; left-- {
		topic, partitions, replicas := in.string(), in.int(), in.int()
		l.topics[topic] = partitions
		in.skip(int(partitions) * int(replicas) * 4)
	}
	for left := in.int(); left > 0; left-- {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = in.string()
		member.ProtocolMetadata = in.bytes(int(in.int()))
		l.members = append(l.members, member)
	}
	return l, in.err
}

// reader reads until its first error, and nothing but zeros from then on.
type reader struct {
	from *bufio.Reader
	err  error
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	bytes := make([]byte, n)
	_, r.err = io.ReadFull(r.from, bytes)
	return bytes
}

func (r *reader) skip(n int) {
	if r.err == nil {
		_, r.err = r.from.Discard(n)
	}
}

func (r *reader) int() int32 {
	bytes := r.bytes(4)
	if r.err != nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(bytes))
}

func (r *reader) string() string {
	length := r.bytes(2)
	if r.err != nil {
		return ""
	}
	return string(r.bytes(int(binary.BigEndian.Uint16(length))))
}
