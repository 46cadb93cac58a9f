//! From what stands in the file to typed values; each function says what is wrong and what to write instead.

use crate::problem::Wrong;
use crate::tree::{Node, Value};
use rdmascope_model::EndpointName;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A host name or IP address with a port, not resolved: names may change their address while an agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Host name, IPv4 address, or IPv6 address without brackets.
    pub host: String,
    /// Port, from 1.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The text is not `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is not HOST:PORT: {why}")]
pub struct HostPortError {
    shown: String,
    why: &'static str,
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why| HostPortError { shown: text.chars().take(80).collect(), why };
        if text.contains("//") {
            return Err(wrong("leave out the scheme (http://) and any path"));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("the port is missing"))?;
        let port =
            port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("the port must be 1 to 65535"))?;
        if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return match inner.parse::<Ipv6Addr>() {
                Ok(_) => Ok(Self { host: inner.to_owned(), port }),
                Err(_) => Err(wrong("between the brackets must be an IPv6 address")),
            };
        }
        if host.contains(':') {
            return Err(wrong("write an IPv6 address in brackets, such as [fd00::7]:8080"));
        }
        let name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if host.is_empty() || host.len() > 253 || !host.chars().all(name_char) {
            return Err(wrong("the host must be a name or an IP address"));
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Text from the file as it may be shown: short, and without anything that a terminal would obey.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        short.push_str("...");
    }
    short
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Whole(value) => format!("the number {value}"),
        Value::Real(value) => format!("the number {value}"),
        Value::Text(text) => format!("`{}`", shown(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a section".to_owned(),
    }
}

pub(crate) fn not_a(form: &str, value: &Value, hint: impl Into<String>) -> Wrong {
    Wrong::new(format!("must be {form}, not {}", described(value)), hint)
}

fn text<'v>(value: &'v Value, form: &str) -> Result<&'v str, Wrong> {
    match value {
        Value::Text(text) => Ok(text),
        Value::Bool(_) | Value::Whole(_) | Value::Real(_) => {
            Err(not_a(form, value, "put it in quotes if it is meant as text"))
        }
        _ => Err(not_a(form, value, format!("write {form}"))),
    }
}

pub(crate) fn truth(value: &Value) -> Result<bool, Wrong> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        _ => Err(not_a("true or false", value, "write true or false, without quotes")),
    }
}

pub(crate) fn whole(value: &Value, range: RangeInclusive<u32>) -> Result<u32, Wrong> {
    let limits = format!("write a whole number from {} to {}", range.start(), range.end());
    let Value::Whole(number) = value else { return Err(not_a("a whole number", value, limits)) };
    let fitting = u32::try_from(*number).ok().filter(|number| range.contains(number));
    fitting.ok_or_else(|| Wrong::new(format!("{number} is out of range"), limits))
}

/// A whole number with its unit: `250ms`, `5s`, `2m`, `1h`.
pub(crate) fn duration(value: &Value, range: RangeInclusive<Duration>) -> Result<Duration, Wrong> {
    const FORM: &str = "a duration";
    let example = "write a whole number and its unit (ms, s, m or h), such as 250ms or 5s";
    if let Value::Whole(number) = value {
        return Err(Wrong::new(
            format!("{number} has no unit"),
            format!("write {number}s if seconds are meant"),
        ));
    }
    let Value::Text(text) = value else { return Err(not_a(FORM, value, example)) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(not_a(FORM, value, example)),
    };
    if number.is_empty() {
        return Err(not_a(FORM, value, example));
    }
    let milliseconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    let fitting = milliseconds.map(Duration::from_millis).filter(|duration| range.contains(duration));
    fitting.ok_or_else(|| {
        let limits = format!("write {} to {}", in_words(*range.start()), in_words(*range.end()));
        Wrong::new(format!("{} is out of range", shown(text)), limits)
    })
}

fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds > 0 && seconds.is_multiple_of(3600) {
        format!("{}h", seconds / 3600)
    } else {
        format!("{seconds}s")
    }
}

pub(crate) fn socket_address(value: &Value) -> Result<SocketAddr, Wrong> {
    const FORM: &str = "ADDRESS:PORT";
    let given = match value {
        Value::Whole(port) => {
            let hint =
                format!("write 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for all addresses");
            return Err(Wrong::new("the address is missing", hint));
        }
        _ => text(value, FORM)?,
    };
    if let Some(port) = given.strip_prefix(':') {
        let port = shown(port);
        let hint = format!("write 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for all addresses");
        return Err(Wrong::new("the address is missing", hint));
    }
    match given.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => {
            Err(Wrong::new("port 0 means any port, which nobody could find", "write a port from 1 to 65535"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(not_a(
            FORM,
            value,
            "write an IP address and a port, such as 127.0.0.1:8080 or \"[::1]:8080\"",
        )),
    }
}

pub(crate) fn host_port(value: &Value) -> Result<HostPort, Wrong> {
    let given = text(value, "HOST:PORT")?;
    given.parse().map_err(|error: HostPortError| not_a("HOST:PORT", value, error.why))
}

/// The value itself is not repeated: some people paste the secret where its file's name belongs.
pub(crate) fn absolute_path(value: &Value) -> Result<PathBuf, Wrong> {
    let wrong =
        || Wrong::new("must be an absolute path", "write the whole path, such as /etc/rdmascope/token");
    let Value::Text(text) = value else { return Err(wrong()) };
    let path = PathBuf::from(text);
    if path.is_absolute() && !text.contains('\0') { Ok(path) } else { Err(wrong()) }
}

pub(crate) fn node_name(value: &Value) -> Result<String, Wrong> {
    let name = text(value, "a name")?;
    if format!("{name}/device/1").parse::<EndpointName>().is_ok() {
        return Ok(name.to_owned());
    }
    Err(not_a("a name", value, "use letters, digits and - _ . : @ (253 characters at most)"))
}

/// Names of processes, in which `*` stands for any letters.
pub(crate) fn process_names(value: &Value) -> Result<Vec<String>, Wrong> {
    const HINT: &str = "write [python3, \"nccl*\"]";
    let Value::List(items) = value else { return Err(not_a("a list of process names", value, HINT)) };
    let name = |node: &Node| match &node.value {
        Value::Text(name) if !name.is_empty() && name.len() <= 64 => Ok(name.clone()),
        other => Err(not_a("the name of a process", other, HINT)),
    };
    items.iter().map(name).collect()
}

pub(crate) fn devices(value: &Value) -> Result<Vec<String>, Wrong> {
    const HINT: &str = "write [mlx5_0, mlx5_1], or leave the key out for all devices";
    let Value::List(items) = value else { return Err(not_a("a list of RDMA device names", value, HINT)) };
    if items.is_empty() {
        return Err(Wrong::new("the list is empty", HINT));
    }
    let mut names: Vec<String> = Vec::new();
    for Node { value, .. } in items {
        let fitting = match value {
            Value::Text(name) if format!("node/{name}/1").parse::<EndpointName>().is_ok() => name,
            _ => return Err(not_a("a list of RDMA device names", value, HINT)),
        };
        if names.contains(fitting) {
            return Err(Wrong::new(
                format!("`{}` is in the list twice", shown(fitting)),
                "keep one of the two",
            ));
        }
        names.push(fitting.clone());
    }
    Ok(names)
}

/// One of a few words.
pub(crate) fn one_of<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, Wrong> {
    if let Value::Text(text) = value
        && let Some((_, meaning)) = words.iter().find(|(word, _)| word == text)
    {
        return Ok(*meaning);
    }
    let listed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    Err(not_a(&format!("one of {listed}"), value, "use one of these words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_read_back_as_they_are_written() {
        for good in ["node7:8080", "10.0.0.1:1", "[fd00::7]:65535", "a-b.example.net:80"] {
            assert_eq!(good.parse::<HostPort>().expect(good).to_string(), good);
        }
        for bad in [
            "",
            "node7",
            "node7:",
            "node7:0",
            "node7:65536",
            ":8080",
            "fd00::7:80",
            "[x]:80",
            "http://a:80",
            "a b:80",
        ] {
            assert!(bad.parse::<HostPort>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn durations_need_a_whole_number_and_a_unit() {
        let any = Duration::ZERO..=Duration::MAX;
        let read = |text: &str| duration(&Value::Text(text.to_owned()), any.clone());
        assert_eq!(read("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(read("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(read("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(read("1h"), Ok(Duration::from_secs(3600)));
        for bad in
            ["", "s", "5", "5 s", "-5s", "1.5s", "5S", "5d", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(read(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
