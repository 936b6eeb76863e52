//! Serves this project's built-in assignors to a program in another language: Kafka's own unit tests, which are Java.
//!
//! A frame is an int32 length and that many bytes of body. Each request is answered by one frame, until the input closes.
//! What a request and its answer hold is told by the other side: `Request.java` and `Answer.java` in tests/java/kafka-tests.

mod plan;
mod user_data;
mod wire;

use std::io::{BufWriter, Read as _, Write as _};

use anyhow::{Context as _, bail};
use wire::{Reader, Writer};

/// More than the largest test needs; a frame that tells more is no frame.
const MOST_BYTES: i32 = 1 << 28;

fn main() -> anyhow::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut output = BufWriter::new(std::io::stdout().lock());
    loop {
        let mut length = [0; 4];
        // Closing between frames is the end.
        match input.read(&mut length[..1])? {
            0 => return Ok(()),
            _ => input.read_exact(&mut length[1..])?,
        }
        let length = i32::from_be_bytes(length);
        if !(0..=MOST_BYTES).contains(&length) {
            bail!("a frame of {length} bytes");
        }
        let mut request = vec![0; usize::try_from(length)?];
        input.read_exact(&mut request)?;

        let answer = answer(&request).or_else(|error| refusal(&error))?;
        output.write_all(&i32::try_from(answer.len())?.to_be_bytes())?;
        output.write_all(&answer)?;
        output.flush()?;
    }
}

fn answer(request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut request = Reader::new(request);
    let mut answer = Writer::default();
    answer.i8(0);
    let what = request.i8()?;
    let strategy = request.string()?;
    match what {
        0 => plan::answer(&strategy, &mut request, &mut answer),
        1 => user_data::read(&strategy, &mut request, &mut answer),
        2 => user_data::write(&strategy, &mut request, &mut answer),
        _ => bail!("nothing of the number {what} can be asked"),
    }
    .with_context(|| format!("{strategy}, request {what}"))?;
    request.end()?;
    Ok(answer.into_body())
}

fn refusal(error: &anyhow::Error) -> anyhow::Result<Vec<u8>> {
    let mut answer = Writer::default();
    answer.i8(1);
    answer.string(&format!("{error:#}"))?;
    Ok(answer.into_body())
}
