//! `sasl.jaas.config`: one login module with its options, as Java users write it.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use super::Secret;

/// A login module and its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoginModule {
    /// The class, without its package.
    pub(super) class: String,
    pub(super) options: BTreeMap<String, Secret>,
}

/// Reads `package.Class required key="value" …;`, with comments where Java allows them.
///
/// # Errors
/// What is wrong. The text never holds a value.
pub(super) fn parse(text: &str) -> Result<LoginModule, String> {
    let mut tokens = Tokens { chars: text.chars().peekable() };
    let class = tokens.word("a login module's class")?;
    let flag = tokens.word("a control flag")?;
    if !["required", "requisite", "sufficient", "optional"].contains(&flag.to_ascii_lowercase().as_str()) {
        return Err(format!("{class} must be followed by \"required\""));
    }
    let mut options = BTreeMap::new();
    loop {
        match tokens.next()? {
            Some(Token::Sign(';')) => break,
            Some(Token::Word(key)) => {
                if tokens.next()? != Some(Token::Sign('=')) {
                    return Err(format!("option {key:?} must be followed by ="));
                }
                let value = tokens.word(&format!("the value of option {key:?}"))?;
                options.insert(key, Secret::from(value));
            }
            Some(Token::Sign(sign)) => return Err(format!("{sign:?} is where an option or ; must be")),
            None => return Err("it must end with a semicolon".into()),
        }
    }
    if tokens.next()?.is_some() {
        return Err("there must be one login module, and nothing after its semicolon".into());
    }
    let class = class.rsplit('.').next().unwrap_or_default().to_owned();
    Ok(LoginModule { class, options })
}

#[derive(PartialEq, Eq)]
enum Token {
    /// A word, or what stood in quotes.
    Word(String),
    Sign(char),
}

/// `java.io.StreamTokenizer` as Kafka's `JaasConfig` sets it up, but for unquoted numbers, which Java refuses.
struct Tokens<'a> {
    chars: Peekable<Chars<'a>>,
}

impl Tokens<'_> {
    fn word(&mut self, what: &str) -> Result<String, String> {
        match self.next()? {
            Some(Token::Word(word)) => Ok(word),
            Some(Token::Sign(sign)) => {
                Err(format!("{sign:?} is where {what} must be; put quotes round values"))
            }
            None => Err(format!("it ends where {what} must be")),
        }
    }

    fn next(&mut self) -> Result<Option<Token>, String> {
        while let Some(c) = self.chars.next() {
            match c {
                c if c.is_whitespace() => {}
                '/' => self.comment()?,
                '"' | '\'' => return self.quoted(c).map(|text| Some(Token::Word(text))),
                c if is_word(c) => {
                    let mut word = String::from(c);
                    while let Some(c) = self.chars.next_if(|&c| is_word(c)) {
                        word.push(c);
                    }
                    return Ok(Some(Token::Word(word)));
                }
                sign => return Ok(Some(Token::Sign(sign))),
            }
        }
        Ok(None)
    }

    /// `// to the end of the line`, or `/* to */`; in Java a single slash begins a comment as well.
    fn comment(&mut self) -> Result<(), String> {
        if self.chars.next_if_eq(&'*').is_none() {
            self.chars.by_ref().find(|&c| c == '\n');
            return Ok(());
        }
        let mut before = ' ';
        for c in self.chars.by_ref() {
            if (before, c) == ('*', '/') {
                return Ok(());
            }
            before = c;
        }
        Err("a comment does not end".into())
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some(c) if c == quote => return Ok(text),
                None | Some('\n' | '\r') => return Err("a quoted value must end on its line".into()),
                Some('\\') => text.push(self.escaped()?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let c = self.chars.next().ok_or("a quoted value must end on its line")?;
        Ok(match c {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            // Up to \377.
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..if c <= '3' { 2 } else { 1 } {
                    let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    self.chars.next();
                    code = code * 8 + digit;
                }
                char::from_u32(code).unwrap_or_default()
            }
            c => c,
        })
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '$') || c >= '\u{a0}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Vec<(String, String)> {
        let module = parse(text).unwrap();
        module.options.into_iter().map(|(key, value)| (key, value.reveal().to_owned())).collect()
    }

    #[test]
    fn a_module_is_read_as_kafkas_documentation_writes_it() {
        let text = "org.apache.kafka.common.security.scram.ScramLoginModule required \\
            username=\"alice\" \\
            password=\"alice-secret\";"
            .replace('\\', "");
        assert_eq!(parse(&text).unwrap().class, "ScramLoginModule");
        let expected = [("password", "alice-secret"), ("username", "alice")];
        assert_eq!(options(&text), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn quotes_escapes_and_comments_are_those_of_java() {
        let read = |value: &str| options(&format!("M required /* a */ p={value} // b\n;")).remove(0).1;
        assert_eq!(read("word-1_$.x"), "word-1_$.x");
        assert_eq!(read(r#""a b;=//'""#), "a b;=//'");
        assert_eq!(read(r#"'a"b'"#), "a\"b");
        assert_eq!(read(r#""\"\\\t\101\60x""#), "\"\\\tA0x");
        assert_eq!(read("\"\""), "");
    }

    #[test]
    fn what_is_no_module_is_refused_without_telling_values() {
        let secret = "hunter2";
        for text in [
            String::new(),
            "M".into(),
            format!("M maybe p=\"{secret}\";"),
            format!("M required p=\"{secret}\""),
            format!("M required p=\"{secret}"),
            format!("M required p \"{secret}\";"),
            format!("M required p=\"{secret}\" =;"),
            format!("M required p=;{secret}"),
            format!("M required p={secret}!;"),
            format!("M required p=\"{secret}\"; N required;"),
            format!("M required /* p=\"{secret}\";"),
        ] {
            let e = parse(&text).unwrap_err();
            assert!(!e.contains(secret), "{e}");
        }
    }
}
