//! An archive of the classes that a Kafka node of the tests loads, so that each starts in half the time.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context as _, bail};

use crate::workspace::Workspace;

/// Makes `<target>/java/kafka/kafka.jsa`, unless it is newer than all that it is made of: by a node that starts, stops, and writes
/// down what it has loaded. A virtual machine of another version ignores it.
pub(crate) fn archive(workspace: &Workspace) -> anyhow::Result<()> {
    let folder = workspace.target.join("java/kafka");
    let archive = folder.join("kafka.jsa");
    let made = modified(&archive);
    if made.is_some() && made > modified(&folder.join("kafka.jar")) && made > modified(&folder.join("lib")) {
        return Ok(());
    }
    println!("making {}", archive.display());
    let training = folder.join("training");
    // It isn't there at first.
    let _ = std::fs::remove_dir_all(&training);
    std::fs::create_dir_all(&training)?;
    let properties = training.join("node.properties");
    std::fs::write(&properties, node(&training.join("data"))?)?;
    let log = training.join("node.log");
    let made = training.join("kafka.jsa");
    let mut java = Command::new("java");
    java.arg(format!("-XX:ArchiveClassesAtExit={}", made.display()));
    java.args(["-XX:+UseSerialGC", "-Xmx384m", "-jar"]).arg(folder.join("kafka.jar")).arg(properties);
    let output = std::fs::File::create(&log)?;
    java.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output);
    let mut node = java.spawn().context("cannot run java")?;
    if let Some(mut input) = node.stdin.take() {
        // Obeyed once it has started. If it has ended already, its status tells.
        let _ = input.write_all(b"stop\n");
    }
    let status = node.wait()?;
    if !status.success() || !made.exists() {
        bail!("a Kafka node does not start and stop ({status}), see {}", log.display());
    }
    std::fs::rename(made, archive)?;
    Ok(std::fs::remove_dir_all(training)?)
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn node(data: &Path) -> anyhow::Result<String> {
    // Both at once, so that they differ.
    let [controller, broker] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?]
        .map(|listener| listener.local_addr());
    let (controller, broker) = (controller?, broker?);
    Ok(format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         log.dirs={}\n\
         controller.quorum.voters=1@{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=CONTROLLER://{controller},PLAINTEXT://{broker}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n",
        data.display()
    ))
}
