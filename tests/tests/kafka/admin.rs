//! What an administrator does to a cluster.

use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    CreateAclsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest, DeleteTopicsRequest,
    DescribeGroupsRequest, FindCoordinatorRequest, MetadataRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::wire::{Call, Wire};

/// The longest that the cluster may take for what it is asked.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_MS: i32 = 60_000;

/// An administrator. Whatever it changes, it waits until all brokers know.
#[derive(Clone)]
pub(crate) struct Admin {
    /// The brokers' plain listeners.
    ports: Vec<u16>,
}

/// What a rule of access is about (Kafka: `ResourceType`).
#[derive(Clone, Copy)]
pub(crate) enum Resource {
    Topic = 2,
    Group = 3,
}

/// A rule that forbids.
pub(crate) struct Rule {
    resource: Resource,
    name: StrBytes,
}

// Kafka: `PatternType`, `AclOperation`, `AclPermissionType`.
const LITERAL: i8 = 3;
const ALL: i8 = 2;
const DENY: i8 = 2;
const EVERYBODY: StrBytes = StrBytes::from_static_str("User:*");
const EVERYWHERE: StrBytes = StrBytes::from_static_str("*");

impl Admin {
    pub(crate) fn new(ports: Vec<u16>) -> Self {
        Self { ports }
    }

    /// Creates a topic, each of whose partitions lies on one broker of the cluster's choice.
    pub(crate) fn create_topic(&self, name: &str, partitions: u32) {
        self.create(name, partitions, CreatableTopic::default().with_replication_factor(1));
    }

    /// Creates a topic whose partitions have these replicas.
    pub(crate) fn create_placed(&self, name: &str, replicas: &[&[i32]]) {
        let assignments = (0..).zip(replicas).map(|(partition, brokers)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(partition)
                .with_broker_ids(brokers.iter().map(|&id| id.into()).collect())
        });
        let topic =
            CreatableTopic::default().with_replication_factor(-1).with_assignments(assignments.collect());
        self.create(name, u32::try_from(replicas.len()).unwrap(), topic);
    }

    fn create(&self, name: &str, partitions: u32, topic: CreatableTopic) {
        let placed = !topic.assignments.is_empty();
        let topic = topic.with_name(topic_name(name)).with_num_partitions(if placed {
            -1
        } else {
            i32::try_from(partitions).unwrap()
        });
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(PATIENCE_MS);
        let response = self.call(&request);
        let result = &response.topics[0];
        done(result.error_code, result.error_message.as_ref());
        self.wait_for(name, partitions);
    }

    /// Gives a topic more partitions.
    pub(crate) fn grow(&self, name: &str, partitions: u32) {
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name(name))
            .with_count(i32::try_from(partitions).unwrap())
            .with_assignments(None);
        let request =
            CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(PATIENCE_MS);
        let response = self.call(&request);
        done(response.results[0].error_code, response.results[0].error_message.as_ref());
        self.wait_for(name, partitions);
    }

    /// Deletes a topic.
    pub(crate) fn delete_topic(&self, name: &str) {
        let topic = DeleteTopicState::default().with_name(Some(topic_name(name)));
        let request = DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(PATIENCE_MS);
        let response = self.call(&request);
        done(response.responses[0].error_code, response.responses[0].error_message.as_ref());
        self.wait_for(name, 0);
    }

    /// Waits until every broker knows so many partitions, each with a leader; of 0, until none knows the topic any more.
    fn wait_for(&self, name: &str, partitions: u32) {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        let start = Instant::now();
        for &port in &self.ports {
            let knows = || {
                // A broker that is down will hear of it when it comes back.
                let Ok(mut wire) = Wire::connect(port) else { return true };
                let topics = wire.call(&request).unwrap().topics;
                let led = topics[0].partitions.iter().filter(|p| p.error_code == 0 && *p.leader_id >= 0);
                led.count() == partitions as usize
            };
            while !knows() {
                assert!(start.elapsed() < PATIENCE, "topic {name:?} has not {partitions} partitions");
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
    }

    /// Forbids everybody everything that could be done with a resource.
    pub(crate) fn forbid(&self, resource: Resource, name: &str) -> Rule {
        let rule = Rule { resource, name: StrBytes::from_string(name.to_owned()) };
        let creation = AclCreation::default()
            .with_resource_type(rule.resource as i8)
            .with_resource_name(rule.name.clone())
            .with_resource_pattern_type(LITERAL)
            .with_principal(EVERYBODY)
            .with_host(EVERYWHERE)
            .with_operation(ALL)
            .with_permission_type(DENY);
        let response = self.call(&CreateAclsRequest::default().with_creations(vec![creation]));
        done(response.results[0].error_code, response.results[0].error_message.as_ref());
        rule
    }

    /// Takes a rule back.
    pub(crate) fn permit(&self, rule: &Rule) {
        let filter = DeleteAclsFilter::default()
            .with_resource_type_filter(rule.resource as i8)
            .with_resource_name_filter(Some(rule.name.clone()))
            .with_pattern_type_filter(LITERAL)
            .with_principal_filter(Some(EVERYBODY))
            .with_host_filter(Some(EVERYWHERE))
            .with_operation(ALL)
            .with_permission_type(DENY);
        let response = self.call(&DeleteAclsRequest::default().with_filters(vec![filter]));
        let result = &response.filter_results[0];
        done(result.error_code, result.error_message.as_ref());
        assert_eq!(result.matching_acls.len(), 1);
    }

    /// The broker that coordinates a group, as its port.
    pub(crate) fn coordinator(&self, group: &str) -> u16 {
        let key = StrBytes::from_string(group.to_owned());
        let request = FindCoordinatorRequest::default().with_key_type(0).with_coordinator_keys(vec![key]);
        let start = Instant::now();
        loop {
            let response = self.call(&request);
            let found = &response.coordinators[0];
            if found.error_code == 0 {
                return u16::try_from(found.port).unwrap();
            }
            // The offsets topic may just be coming.
            assert!(start.elapsed() < PATIENCE, "no coordinator: {:?}", found.error_code);
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// A group as its coordinator describes it.
    pub(crate) fn describe_group(&self, group: &str) -> DescribedGroup {
        let mut wire = Wire::connect(self.coordinator(group)).unwrap();
        let group = StrBytes::from_string(group.to_owned()).into();
        let response = wire.call(&DescribeGroupsRequest::default().with_groups(vec![group])).unwrap();
        response.groups.into_iter().next().unwrap()
    }

    /// Asks the first broker that is there.
    pub(crate) fn call<R: Call>(&self, request: &R) -> R::Response {
        let start = Instant::now();
        loop {
            for &port in &self.ports {
                if let Ok(response) = Wire::connect(port).and_then(|mut wire| wire.call(request)) {
                    return response;
                }
            }
            assert!(start.elapsed() < PATIENCE, "no broker answers {:?}", R::API);
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

fn topic_name(name: &str) -> TopicName {
    StrBytes::from_string(name.to_owned()).into()
}

fn done(code: i16, message: Option<&StrBytes>) {
    assert_eq!(code, 0, "{:?}: {message:?}", ResponseError::try_from_code(code));
}
