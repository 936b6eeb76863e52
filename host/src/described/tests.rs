//! What is accepted, and that every refusal names its place.

use super::*;

fn refusal(json: &str) -> (String, String) {
    let error = DescribedGroup::parse(json.as_bytes()).unwrap_err();
    (error.place, error.reason)
}

#[test]
fn everything_that_may_be_left_out_may_be_left_out() {
    assert_eq!(DescribedGroup::parse(b"{}").unwrap(), DescribedGroup::default());
    let described = DescribedGroup::parse(
        br#"{"topics": {"t": {"partitions": 4}}, "members": [{"id": "b", "topics": ["t"]}, {"id": "a", "topics": []}]}"#,
    )
    .unwrap();
    assert_eq!(described.context.generation, -1);
    assert_eq!(described.leader().unwrap().id, "a");
    let group = described.group().unwrap();
    assert_eq!((group.partitions(), group.members().len()), (4, 2));
}

#[test]
fn everything_that_is_told_arrives() {
    let described = DescribedGroup::parse(
        br#"{
            "context": {"group_id": "g", "leader": "b", "generation": 7, "now_ms": 1234},
            "nodes": [{"id": 2, "host": "two"}, {"id": 1, "host": "one", "rack": "r1"}],
            "topics": {"t": {"partitions": 2, "replicas": [[2, 1], []], "lag": {"begin": [0, 1], "end": [5, -1]}}},
            "members": [
                {"id": "a", "topics": ["t", "gone"]},
                {"id": "b", "instance_id": "i", "topics": ["t"], "owned": {"t": [1]}, "generation": 6, "rack": "r1",
                 "user_data": "AAEC", "config": {"weight": "3"}}
            ]
        }"#,
    )
    .unwrap();
    let services = described.services();
    let leader = described.leader().unwrap();
    let context = described.context_of(leader, &services);
    assert_eq!((context.group_id.as_str(), context.member_id.as_str()), ("g", "b"));
    assert_eq!((context.generation, context.now_ms), (7, 1234));
    assert_eq!((context.instance_id.as_deref(), context.rack.as_deref()), (Some("i"), Some("r1")));
    assert_eq!(leader.config["weight"], "3");

    let group = described.group().unwrap();
    assert_eq!(group.members()[1].owned, [1]);
    assert_eq!(group.members()[1].generation, Some(6));
    assert_eq!(group.members()[1].user_data.as_deref(), Some(&[0, 1, 2][..]));

    let now = Instant::now();
    assert_eq!(services.nodes(now).unwrap().iter().map(|n| n.id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(services.leaders("t", now).unwrap(), [2, -1]);
    assert_eq!(services.replicas("t", now).unwrap(), [vec![2, 1], vec![]]);
    assert_eq!(services.begin_offsets("t", now).unwrap(), [0, 1]);
    assert_eq!(services.end_offsets("t", now).unwrap(), [5, -1]);
    let missing = services.committed_offsets("t", now).unwrap_err().to_string();
    assert_eq!(missing, "unavailable: the group's description has no topics.t.lag.committed");
}

#[test]
fn what_has_another_shape_is_refused_at_its_place() {
    for (json, place, reason) in [
        ("", "the document", "EOF"),
        ("{", "the document", "EOF"),
        ("3", "the document", "invalid type: integer"),
        ("{} {}", "after the document", "trailing"),
        (r#"{"topcis": {}}"#, "topcis", "unknown field `topcis`"),
        (r#"{"members": [{"id": "a", "topics": [], "weight": 1}]}"#, "members[0].weight", "unknown field"),
        (r#"{"members": [{"topics": []}]}"#, "members[0]", "missing field `id`"),
        (r#"{"members": [{"id": "a"}]}"#, "members[0]", "missing field `topics`"),
        (r#"{"topics": {"t": {}}}"#, "topics.t", "missing field `partitions`"),
        (r#"{"topics": {"t": {"partitions": -1}}}"#, "topics.t.partitions", "expected u32"),
        (r#"{"topics": {"t": {"partitions": 4294967296}}}"#, "topics.t.partitions", "expected u32"),
        (r#"{"topics": {"t": {"partitions": 1}, "t": {"partitions": 2}}}"#, "topics", "\"t\" is given twice"),
        (r#"{"members": [{"id": "a", "id": "b", "topics": []}]}"#, "members[0]", "duplicate field `id`"),
        (
            r#"{"members": [{"id": "a", "topics": [], "config": {"k": 1}}]}"#,
            "members[0].config.k",
            "a string",
        ),
        (
            r#"{"members": [{"id": "a", "topics": [], "user_data": "*"}]}"#,
            "members[0].user_data",
            "not base64",
        ),
        (
            r#"{"topics": {"t": {"partitions": 1}}, "members": [{"id": "a", "topics": ["t"], "owned": {"t": [-1]}}]}"#,
            "members[0].owned.t[0]",
            "expected u32",
        ),
    ] {
        let found = refusal(json);
        assert_eq!(found.0, place, "{json}: {}", found.1);
        assert!(found.1.contains(reason), "{json}: {}", found.1);
    }
}

#[test]
fn what_contradicts_itself_is_refused_at_its_place() {
    let group =
        |members: &str| format!(r#"{{"topics": {{"t": {{"partitions": 2}}}}, "members": [{members}]}}"#);
    for (json, place, reason) in [
        (group(r#"{"id": "a", "topics": []}, {"id": "a", "topics": []}"#), "members[1].id", "members[0].id"),
        (group(r#"{"id": "", "topics": []}"#), "members[0].id", "empty"),
        (group(r#"{"id": "a", "topics": ["t", "t"]}"#), "members[0].topics[1]", "members[0].topics[0]"),
        (
            group(r#"{"id": "a", "topics": ["t"], "owned": {"t": [0, 2]}}"#),
            "members[0].owned.t[1]",
            "no partition 2",
        ),
        (
            group(r#"{"id": "a", "topics": ["t"], "owned": {"t": [1, 1]}}"#),
            "members[0].owned.t[1]",
            "the same as",
        ),
        (
            group(r#"{"id": "a", "topics": ["u"], "owned": {"u": [0]}}"#),
            "members[0].owned.u",
            "not described",
        ),
        (group(r#"{"id": "a", "topics": ["t"], "generation": -2}"#), "members[0].generation", "-2"),
        (r#"{"context": {"leader": "x"}}"#.into(), "context.leader", "no member has the id \"x\""),
        (r#"{"context": {"generation": -7}}"#.into(), "context.generation", "-7"),
        (r#"{"nodes": [{"id": 1}, {"id": 1}]}"#.into(), "nodes[1].id", "nodes[0].id"),
        (r#"{"topics": {"": {"partitions": 1}}}"#.into(), "topics", "empty"),
        (
            r#"{"topics": {"t": {"partitions": 2, "replicas": [[1]]}}}"#.into(),
            "topics.t.replicas",
            "1 entries for 2",
        ),
        (
            r#"{"topics": {"t": {"partitions": 1, "lag": {"end": []}}}}"#.into(),
            "topics.t.lag.end",
            "0 entries for 1",
        ),
        (
            r#"{"topics": {"t": {"partitions": 1, "lag": {"begin": [-2]}}}}"#.into(),
            "topics.t.lag.begin[0]",
            "-2",
        ),
        (
            r#"{"topics": {"a": {"partitions": 10000000}, "b": {"partitions": 1}}}"#.into(),
            "topics.b.partitions",
            "more than 10000000",
        ),
    ] {
        let found = refusal(&json);
        assert_eq!(found.0, place, "{json}: {}", found.1);
        assert!(found.1.contains(reason), "{json}: {}", found.1);
    }
}

/// serde would take an array for a struct, its fields in order.
#[test]
fn an_array_is_no_object() {
    for (json, place) in [
        ("[]", "the document"),
        (r#"{"context": ["g"]}"#, "context"),
        (r#"{"nodes": [[1, "host"]]}"#, "nodes[0]"),
        (r#"{"members": [{"id": "a", "topics": []}, ["b", null, []]]}"#, "members[1]"),
        (r#"{"topics": {"t": [3]}}"#, "topics.t"),
        (r#"{"topics": {"t": {"partitions": 1, "lag": [[0], [1], [0]]}}}"#, "topics.t.lag"),
    ] {
        let found = refusal(json);
        assert_eq!(found.0, place, "{json}: {}", found.1);
        assert!(found.1.contains("expected an object"), "{json}: {}", found.1);
    }
}
