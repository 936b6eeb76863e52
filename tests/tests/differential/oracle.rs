//! The Java program that answers with Kafka's own plans (`tests/java/oracle`).
//!
//! Frames both ways are a length (u32, big-endian) and a body. A request is a strategy's name, the topics with the racks of
//! their partitions' replicas, and the members with Kafka's own subscription blobs; a response is a plan or an error.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use assignor_host::described::DescribedGroup;
use assignor_host::wire::{HIGHEST_VERSION, subscription};
use assignor_tests::built;

/// Many times what Java takes for the largest group. For some it has no end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The answer where it has none.
pub(crate) const NO_END: &str = "no end";
/// More than any plan takes.
const LARGEST_ANSWER: usize = 64 << 20;

/// Partitions by topic, by member: as they came, so also partitions that don't exist.
pub(crate) type Named = Vec<(String, Vec<(String, Vec<i32>)>)>;

/// A plan, or what Kafka's code threw.
pub(crate) type Answer = Result<Named, String>;

/// The Java program, started anew where it has no end.
pub(crate) struct Oracle {
    java: Running,
    patience: Duration,
}

impl Oracle {
    /// Starts it.
    ///
    /// # Panics
    /// If there is no Java, or the program hasn't been built.
    pub(crate) fn start() -> Self {
        Self::waited_for(PATIENCE)
    }

    /// One that has no end if it takes longer than this.
    pub(crate) fn waited_for(patience: Duration) -> Self {
        Self { java: Running::start(), patience }
    }

    /// Kafka's plans for these groups by these strategies.
    ///
    /// # Panics
    /// If Java ends, or answers with what is no answer.
    pub(crate) fn ask(&mut self, questions: &[(&str, &DescribedGroup)]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(questions.len());
        while answers.len() < questions.len() {
            let rest = &questions[answers.len()..];
            for (strategy, group) in rest {
                self.java.requests.send(request(strategy, group)).unwrap();
            }
            let answered: Vec<Answer> = rest.iter().map_while(|_| self.java.answer(self.patience)).collect();
            let all = answered.len() == rest.len();
            answers.extend(answered);
            if !all {
                answers.push(Err(NO_END.to_owned()));
                self.java = Running::start();
            }
        }
        answers
    }

    /// Kafka's plan for one group.
    pub(crate) fn ask_one(&mut self, strategy: &str, group: &DescribedGroup) -> Answer {
        self.ask(&[(strategy, group)]).pop().unwrap()
    }
}

/// Killed when dropped.
struct Running {
    java: Child,
    requests: Sender<Vec<u8>>,
    answers: Receiver<io::Result<Vec<u8>>>,
}

impl Running {
    fn start() -> Self {
        let mut java = java();
        let (input, output) = (java.stdin.take().unwrap(), java.stdout.take().unwrap());
        // Each in a thread of its own: requests are sent ahead, and waiting for an answer must end. Both threads end with the
        // pipes, so at the latest when the program is killed.
        let (requests, to_write) = mpsc::channel();
        let (read, answers) = mpsc::channel();
        std::thread::spawn(move || write(input, &to_write));
        std::thread::spawn(move || {
            let mut output = io::BufReader::new(output);
            loop {
                let answer = frame(&mut output);
                let last = answer.is_err();
                if read.send(answer).is_err() || last {
                    return;
                }
            }
        });
        Self { java, requests, answers }
    }

    /// The next answer, if it comes in time.
    fn answer(&self, patience: Duration) -> Option<Answer> {
        match self.answers.recv_timeout(patience) {
            Ok(Ok(body)) => Some(response(&body)),
            Err(RecvTimeoutError::Timeout) => None,
            ended => panic!("Java ended: {ended:?}"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.java.kill();
        let _ = self.java.wait();
    }
}

fn java() -> Child {
    let jar = built("java/oracle/oracle.jar");
    let java = Command::new("java").arg("-jar").arg(jar).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    java.unwrap_or_else(|e| panic!("cannot run java, which `cargo xtask setup` installs: {e}"))
}

/// No Java is left over when who asked is gone, however it went.
#[test]
fn java_ends_when_its_input_closes() {
    let mut java = java();
    drop(java.stdin.take());
    let mut rest = Vec::new();
    let mut output = java.stdout.take().unwrap();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(output.read_to_end(&mut rest).map(|_| rest)));
    let ended = ended.recv_timeout(PATIENCE);
    if ended.is_err() {
        java.kill().unwrap();
    }
    assert_eq!(ended.unwrap().unwrap(), [0u8; 0]);
    assert!(java.wait().unwrap().success());
}

fn write(input: ChildStdin, requests: &Receiver<Vec<u8>>) {
    let mut input = io::BufWriter::new(input);
    while let Ok(body) = requests.recv() {
        let mut next = Some(body);
        while let Some(body) = next {
            let length = u32::try_from(body.len()).unwrap().to_be_bytes();
            // If Java is gone, whoever waits for its answer hears of it.
            if input.write_all(&length).and_then(|()| input.write_all(&body)).is_err() {
                return;
            }
            next = requests.try_recv().ok();
        }
        if input.flush().is_err() {
            return;
        }
    }
}

fn frame(output: &mut io::BufReader<ChildStdout>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    output.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LARGEST_ANSWER {
        return Err(io::Error::other(format!("an answer of {length} bytes")));
    }
    let mut body = vec![0; length];
    output.read_exact(&mut body)?;
    Ok(body)
}

fn request(strategy: &str, group: &DescribedGroup) -> Vec<u8> {
    let mut out = Vec::new();
    put_string(&mut out, Some(strategy));
    let racks: HashMap<i32, &str> =
        group.nodes.iter().filter_map(|node| Some((node.id, node.rack.as_deref()?))).collect();
    put_count(&mut out, group.topics.len());
    for (name, topic) in &group.topics {
        put_string(&mut out, Some(name));
        put_count(&mut out, topic.partitions as usize);
        for partition in 0..topic.partitions as usize {
            let replicas = topic.replicas.as_ref().map_or(&[][..], |replicas| &replicas[partition]);
            put_count(&mut out, replicas.len());
            replicas.iter().for_each(|id| put_string(&mut out, racks.get(id).copied()));
        }
    }
    put_count(&mut out, group.members.len());
    for member in &group.members {
        put_string(&mut out, Some(&member.id));
        put_string(&mut out, member.instance_id.as_deref());
        let blob = subscription::encode(&member.subscription().subscription, HIGHEST_VERSION).unwrap();
        put_count(&mut out, blob.len());
        out.extend_from_slice(&blob);
    }
    out
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&i32::try_from(count).unwrap().to_be_bytes());
}

fn put_string(out: &mut Vec<u8>, string: Option<&str>) {
    let length = string.map_or(-1, |string| i16::try_from(string.len()).unwrap());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(string.unwrap_or_default().as_bytes());
}

fn response(body: &[u8]) -> Answer {
    let mut rest = body;
    let [failed] = take(&mut rest);
    if failed == 1 {
        return Err(string(&mut rest));
    }
    let mut members = Vec::new();
    for _ in 0..int(&mut rest) {
        let member = string(&mut rest);
        let mut topics = Vec::new();
        for _ in 0..int(&mut rest) {
            let topic = string(&mut rest);
            let partitions = (0..int(&mut rest)).map(|_| int(&mut rest)).collect();
            topics.push((topic, partitions));
        }
        members.push((member, topics));
    }
    assert!(failed == 0 && rest.is_empty(), "Java answered with what is no answer");
    Ok(members)
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (taken, after) = rest.split_first_chunk().unwrap();
    *rest = after;
    *taken
}

fn int(rest: &mut &[u8]) -> i32 {
    i32::from_be_bytes(take(rest))
}

fn string(rest: &mut &[u8]) -> String {
    let length = usize::try_from(i16::from_be_bytes(take(rest))).unwrap();
    let (taken, after) = rest.split_at(length);
    *rest = after;
    String::from_utf8(taken.to_vec()).unwrap()
}
