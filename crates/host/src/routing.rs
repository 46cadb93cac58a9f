//! Routes, policy rules and neighbours of a captured machine: text as `ip route`, `ip rule` and `ip neighbour` print it.

use crate::parse;
use crate::text::parsed;
use crate::tree::Tree;
use rdmascope_model::{Address, Neighbour, Route, Routing};
use std::fmt::Write as _;

/// The table of our own addresses (`RT_TABLE_LOCAL`, `include/uapi/linux/rtnetlink.h`).
pub(crate) const LOCAL_TABLE: u32 = 255;
const MAIN_TABLE: u32 = 254;
const DEFAULT_TABLE: u32 = 253;

const ROUTES: &str = "rdmascope/routes";
const RULES: &str = "rdmascope/rules";
const NEIGHBOURS: &str = "rdmascope/neighbours";

/// A list that is empty: an empty file would look like one that was never filled.
const NONE: &str = "none";

/// The key of the number of policy rules, where the rules themselves are not kept.
const OWN: &str = "own: ";

/// First words of routes that no packet takes to another machine.
const NOT_UNICAST: [&str; 8] =
    ["local", "broadcast", "anycast", "multicast", "blackhole", "unreachable", "prohibit", "throw"];

/// Whether a policy rule without a selector is one that the kernel makes (`net/ipv4/fib_rules.c`, `net/ipv6/fib6_rules.c`).
pub(crate) fn is_kernels_own(priority: u32, table: u32) -> bool {
    matches!((priority, table), (0, LOCAL_TABLE) | (32_766, MAIN_TABLE) | (32_767, DEFAULT_TABLE))
}

/// From the files of a capture.
pub(crate) fn from_files(tree: &Tree) -> Routing {
    Routing {
        routes: parsed(tree, ROUTES, parse_routes),
        own_rules: parsed(tree, RULES, parse_rules),
        unresolved: parsed(tree, NEIGHBOURS, parse_neighbours),
    }
}

/// The files of a capture, path and text; what could not be read is left out.
pub(crate) fn to_files(routing: &Routing) -> Vec<(String, String)> {
    let routes = routing.routes.value().map(|routes| listed(routes.iter().map(route_line)));
    let rules = routing.own_rules.value().map(|own| format!("{OWN}{own}\n"));
    let neighbours = routing
        .unresolved
        .value()
        .map(|found| listed(found.iter().map(|n| format!("{} dev {} {}", n.ip, n.netdev, n.state))));
    let files = [(ROUTES, routes), (RULES, rules), (NEIGHBOURS, neighbours)];
    files.into_iter().filter_map(|(path, text)| Some((path.to_owned(), text?))).collect()
}

fn listed(lines: impl Iterator<Item = String>) -> String {
    let mut text = lines.collect::<Vec<_>>().join("\n");
    if text.is_empty() {
        NONE.clone_into(&mut text);
    }
    text.push('\n');
    text
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != NONE)
}

fn route_line(route: &Route) -> String {
    let mut line = route.to.map_or("default".to_owned(), |to| to.to_string());
    if let Some(gateway) = route.gateway {
        let _ = write!(line, " via {gateway}");
    }
    let _ = write!(line, " dev {}", route.netdev);
    if route.table != MAIN_TABLE {
        let _ = write!(line, " table {}", route.table);
    }
    line
}

/// The word after `key`.
fn after<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1)).copied()
}

fn table_number(word: &str) -> Result<u32, String> {
    match word {
        "local" => Ok(LOCAL_TABLE),
        "main" => Ok(MAIN_TABLE),
        "default" => Ok(DEFAULT_TABLE),
        number => parse::number(number),
    }
}

/// Lines of `ip route show table all`. A route with several next hops is followed by a line `nexthop ...` for each.
fn parse_routes(text: &str) -> Result<Vec<Route>, String> {
    let mut routes = Vec::new();
    let mut above: Option<(Option<Address>, u32)> = None;
    for line in lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let words = words.strip_prefix(&["unicast"]).unwrap_or(&words);
        let Some(&first) = words.first() else { continue };
        if NOT_UNICAST.contains(&first) {
            above = None;
            continue;
        }
        let (to, table) = if first == "nexthop" {
            let Some(above) = above else { continue };
            above
        } else {
            let to = match first {
                "default" => None,
                network => Some(network.parse::<Address>().map_err(|e| e.to_string())?),
            };
            (to, after(words, "table").map_or(Ok(MAIN_TABLE), table_number)?)
        };
        above = Some((to, table));
        // The first line of a route with several next hops has no device.
        let Some(netdev) = after(words, "dev") else { continue };
        // `via inet6 fe80::1` where the gateway is of the other family.
        let via = after(words, "via")
            .map(|word| if word.starts_with("inet") { after(words, word) } else { Some(word) });
        let gateway = match via.flatten() {
            Some(word) => Some(word.parse().map_err(|_| "a gateway in it is not an IP address".to_owned())?),
            None => None,
        };
        if table != LOCAL_TABLE {
            routes.push(Route { to, netdev: parse::plain(netdev)?, table, gateway });
        }
    }
    Ok(routes)
}

/// Lines of `ip rule`, both families one after the other, or the number of rules alone.
fn parse_rules(text: &str) -> Result<u32, String> {
    if let Some(number) = text.trim().strip_prefix(OWN) {
        return parse::number(number);
    }
    let mut own = 0;
    for line in lines(text) {
        let (priority, rule) = line.split_once(':').ok_or("a line of it is no policy rule")?;
        let priority = parse::number(priority.trim())?;
        let words: Vec<&str> = rule.split_whitespace().collect();
        let kernels = match words[..] {
            ["from", "all", "lookup", table] => is_kernels_own(priority, table_number(table).unwrap_or(0)),
            _ => false,
        };
        own += u32::from(!kernels);
    }
    Ok(own)
}

/// Lines of `ip neighbour`; of all states but two nothing is kept.
fn parse_neighbours(text: &str) -> Result<Vec<Neighbour>, String> {
    let mut found = Vec::new();
    for line in lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ip = words
            .first()
            .and_then(|word| word.parse().ok())
            .ok_or("a line of it begins with no IP address")?;
        let netdev = after(&words, "dev").ok_or("a line of it names no device")?;
        if let Some(state) = words.iter().find(|word| ["FAILED", "INCOMPLETE"].contains(*word)) {
            found.push(Neighbour { ip, netdev: parse::plain(netdev)?, state: (*state).to_owned() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;
    use rdmascope_model::Reading;

    fn route(to: Option<&str>, netdev: &str, table: u32, gateway: Option<&str>) -> Route {
        Route {
            to: to.map(|to| to.parse().unwrap()),
            netdev: netdev.to_owned(),
            table,
            gateway: gateway.map(|ip| ip.parse().unwrap()),
        }
    }

    fn written(routing: &Routing) -> Routing {
        let folder = Folder::new();
        for (path, text) in to_files(routing) {
            folder.write(&path, &text);
        }
        from_files(&Tree::open(folder.path()).unwrap())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let failed = Neighbour {
            ip: "192.0.2.9".parse().unwrap(),
            netdev: "eth0".to_owned(),
            state: "FAILED".to_owned(),
        };
        let full = Routing {
            routes: Reading::Value(vec![
                route(None, "eth9", 254, Some("203.0.113.1")),
                route(Some("192.0.2.0/24"), "eth0", 254, None),
                route(Some("2001:db8::/64"), "eth0", 101, None),
            ]),
            own_rules: Reading::Value(3),
            unresolved: Reading::Value(vec![failed]),
        };
        assert_eq!(written(&full), full);
        let empty = Routing {
            routes: Reading::Value(Vec::new()),
            own_rules: Reading::Value(0),
            unresolved: Reading::Value(Vec::new()),
        };
        assert_eq!(written(&empty), empty);
        let unread = written(&Routing::unread("EPERM"));
        assert_eq!(
            unread.own_rules,
            Reading::failed("rdmascope/rules is not part of this capture, or empty")
        );
        assert!(
            matches!(unread.routes, Reading::Failed(_)) && matches!(unread.unresolved, Reading::Failed(_))
        );
    }

    #[test]
    fn what_ip_route_prints_is_understood() {
        let text = "default via 203.0.113.1 dev eth9 proto dhcp src 203.0.113.7 metric 100\n\
                    default via 192.0.2.254 dev eth0 table 101\n\
                    198.51.100.0/24 proto bgp metric 20\n\
                    \tnexthop via 192.0.2.1 dev eth0 weight 1\n\
                    \tnexthop via inet6 fe80::1 dev eth1 weight 1\n\
                    blackhole 203.0.113.128/25\n\
                    local 192.0.2.7 dev eth0 table local proto kernel scope host\n\
                    192.0.2.99 dev eth0 scope link\n\
                    2001:db8::/64 dev eth0 proto kernel metric 256 pref medium\n";
        let expected = vec![
            route(None, "eth9", 254, Some("203.0.113.1")),
            route(None, "eth0", 101, Some("192.0.2.254")),
            route(Some("198.51.100.0/24"), "eth0", 254, Some("192.0.2.1")),
            route(Some("198.51.100.0/24"), "eth1", 254, Some("fe80::1")),
            route(Some("192.0.2.99"), "eth0", 254, None),
            route(Some("2001:db8::/64"), "eth0", 254, None),
        ];
        assert_eq!(parse_routes(text), Ok(expected));
        assert!(parse_routes("somewhere dev eth0").is_err());
    }

    #[test]
    fn the_kernels_three_rules_do_not_count() {
        let kernels = "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n\
                       0:\tfrom all lookup local\n32766:\tfrom all lookup main\n";
        assert_eq!(parse_rules(kernels), Ok(0));
        let own = "100:\tfrom 192.0.2.7 lookup 101\n32766:\tfrom all lookup 101\n32766:\tfrom all iif eth0 lookup main\n";
        assert_eq!(parse_rules(&format!("{kernels}{own}")), Ok(3));
        assert!(parse_rules("from all").is_err());
    }

    #[test]
    fn only_neighbours_without_an_answer_are_kept() {
        let text = "192.0.2.1 dev eth0 lladdr 02:00:00:00:00:01 REACHABLE\n\
                    192.0.2.9 dev eth0  FAILED\n192.0.2.8 dev eth1  INCOMPLETE\n";
        let found = parse_neighbours(text).unwrap();
        let seen: Vec<_> = found.iter().map(|n| (n.ip.to_string(), &n.netdev[..], &n.state[..])).collect();
        assert_eq!(
            seen,
            [("192.0.2.9".to_owned(), "eth0", "FAILED"), ("192.0.2.8".to_owned(), "eth1", "INCOMPLETE")]
        );
        assert!(parse_neighbours("eth0 FAILED").is_err());
    }
}
