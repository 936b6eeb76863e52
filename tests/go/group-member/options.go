package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// strategies are the client's, by the names of their protocols.
var strategies = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

// options says in the client's terms what Kafka's properties say.
func options(properties map[string]string) ([]kgo.Opt, error) {
	var all []kgo.Opt
	for key, value := range properties {
		option, err := option(key, value)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", key, value, err)
		}
		if option != nil {
			all = append(all, option)
		}
	}
	return all, nil
}

func option(key, value string) (kgo.Opt, error) {
	switch key {
	case "bootstrap.servers":
		return kgo.SeedBrokers(strings.Split(value, ",")...), nil
	case "group.id":
		return kgo.ConsumerGroup(value), nil
	case "client.id":
		return kgo.ClientID(value), nil
	case "client.rack":
		return kgo.Rack(value), nil
	case "group.instance.id":
		return kgo.InstanceID(value), nil
	case "partition.assignment.strategy":
		var balancers []kgo.GroupBalancer
		for name := range strings.SplitSeq(value, ",") {
			strategy := strategies[name]
			if strategy == nil {
				return nil, fmt.Errorf("franz-go has no strategy %s", name)
			}
			balancers = append(balancers, strategy())
		}
		return kgo.Balancers(balancers...), nil
	case "auto.offset.reset":
		if value == "earliest" {
			return kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), nil
		}
		return kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), nil
	case "enable.auto.commit":
		if value == "true" {
			return nil, nil
		}
		return kgo.DisableAutoCommit(), nil
	case "max.poll.records", "member.commit":
		// The member's own.
		return nil, nil
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("neither known nor a time in milliseconds")
	}
	milliseconds := time.Duration(number) * time.Millisecond
	switch key {
	case "session.timeout.ms":
		return kgo.SessionTimeout(milliseconds), nil
	case "heartbeat.interval.ms":
		return kgo.HeartbeatInterval(milliseconds), nil
	case "max.poll.interval.ms":
		// The client has no limit between polls; the group's rebalance time-out is this in Kafka.
		return kgo.RebalanceTimeout(milliseconds), nil
	case "auto.commit.interval.ms":
		return kgo.AutoCommitInterval(milliseconds), nil
	case "metadata.max.age.ms":
		return kgo.MetadataMaxAge(milliseconds), nil
	case "fetch.max.wait.ms":
		return kgo.FetchMaxWait(milliseconds), nil
	}
	return nil, fmt.Errorf("not a property that this program knows")
}
