package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const poll = 50 * time.Millisecond

// member is a client, what it is told and what it says.
type member struct {
	topics     []string
	properties map[string]string
	output     output
	// commands are obeyed between polls.
	commands chan string
	client   *kgo.Client
	// owned is touched by the client's callbacks only, which never run at once.
	owned map[string][]int32
	pace  time.Duration
}

func newMember(arguments []string, out output) *member {
	m := &member{
		topics:     strings.Split(arguments[1], ","),
		properties: make(map[string]string),
		output:     out,
		commands:   make(chan string, 1000),
		owned:      make(map[string][]int32),
	}
	for _, argument := range arguments[2:] {
		key, value, _ := strings.Cut(argument, "=")
		m.properties[key] = value
	}
	return m
}

// run lives until the member is told to stop, which is well, or can't go on.
func (m *member) run() bool {
	all, err := options(m.properties)
	if err != nil {
		m.output.say("error", "fatal: "+err.Error())
		return false
	}
	all = append(all,
		// A poll's records are written down before their partitions are given up.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
	)
	if age, err := strconv.Atoi(m.properties["metadata.max.age.ms"]); err == nil && age < 5000 {
		all = append(all, kgo.MetadataMinAge(100*time.Millisecond))
	}
	m.output.say("ready", "")
	for {
		for command := m.command(); command != ""; command = m.command() {
			switch words := strings.Split(command, " "); words[0] {
			case "start":
				// A client of franz-go joins as soon as it is made.
				m.client, err = kgo.NewClient(append(all, kgo.ConsumeTopics(m.topics...))...)
				if err != nil {
					m.output.say("error", "fatal: "+err.Error())
					return false
				}
			case "stop":
				if m.client != nil {
					m.client.CloseAllowingRebalance()
				}
				m.output.say("closed", "")
				return true
			default:
				m.obey(words)
			}
		}
		m.poll()
	}
}

// command is the next one, or none; before "start", it is waited for.
func (m *member) command() string {
	if m.client == nil {
		return <-m.commands
	}
	select {
	case command := <-m.commands:
		return command
	default:
		return ""
	}
}

func (m *member) poll() {
	within, done := context.WithTimeout(context.Background(), poll)
	defer done()
	most, _ := strconv.Atoi(m.properties["max.poll.records"])
	if most == 0 {
		most = 500
	}
	fetches := m.client.PollRecords(within, most)
	given := now()
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			m.output.say("error", topic+"-"+strconv.Itoa(int(partition))+": "+err.Error())
		}
	})
	if fetches.NumRecords() == 0 {
		m.client.AllowRebalance()
		return
	}
	m.output.records(fetches, given)
	if m.properties["enable.auto.commit"] == "false" && m.properties["member.commit"] != "never" {
		m.commit(m.client)
	}
	m.client.AllowRebalance()
	time.Sleep(m.pace)
}

func (m *member) obey(command []string) {
	switch command[0] {
	case "busy":
		m.output.say("event", "busy")
		time.Sleep(milliseconds(command[1]))
	case "pace":
		m.pace = milliseconds(command[1])
	case "subscribe":
		topics := strings.Split(command[1], ",")
		m.client.AddConsumeTopics(topics...)
		for _, topic := range m.topics {
			if !slices.Contains(topics, topic) {
				m.client.PurgeTopicsFromConsuming(topic)
			}
		}
		m.topics = topics
	case "rebalance":
		m.client.ForceRebalance()
	default:
		m.output.say("error", "can't "+strings.Join(command, " "))
	}
}

func (m *member) commit(client *kgo.Client) {
	if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
		m.output.say("error", err.Error())
	}
}

func (m *member) assigned(_ context.Context, client *kgo.Client, added map[string][]int32) {
	for topic, partitions := range added {
		m.owned[topic] = append(m.owned[topic], partitions...)
	}
	// Who leads, and by which strategy, the client doesn't tell.
	_, generation := client.GroupMetadata()
	m.output.say("assigned", strconv.Itoa(int(generation))+" - - "+word(m.owned))
}

func (m *member) revoked(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
	if len(partitions) == 0 {
		return
	}
	m.output.say("revoked", word(partitions))
	// A callback of one's own takes the place of the one that commits.
	if m.properties["enable.auto.commit"] != "false" {
		m.commit(client)
	}
	m.forget(partitions)
}

func (m *member) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	m.output.say("lost", word(partitions))
	m.forget(partitions)
}

func (m *member) forget(partitions map[string][]int32) {
	for topic, gone := range partitions {
		m.owned[topic] = slices.DeleteFunc(m.owned[topic], func(p int32) bool { return slices.Contains(gone, p) })
	}
}

func milliseconds(number string) time.Duration {
	n, _ := strconv.Atoi(number)
	return time.Duration(n) * time.Millisecond
}
