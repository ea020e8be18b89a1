//! Lists of addresses and networks: `10.0.0.5 192.168.0.0/16 fd00::/8`.

use std::net::IpAddr;

use super::error::ValueError;
use super::kinds::{Phase, Stored, words_of};
use super::shape::Value;

/// Networks that a list takes at most.
const NETWORKS_MAX: usize = 256;

/// Addresses and networks, as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// Leading bits that count.
    bits: u32,
    text: String,
}

impl Networks {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is in one of them. One of IPv4 is the same within IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = width_of(address);
        let bits = match bits {
            // No sign, and no zeros in front.
            Some(bits) if bits == "0" || !bits.starts_with(['0', '+']) => bits.parse().ok()?,
            Some(_) => return None,
            None => width,
        };
        if bits > width {
            return None;
        }
        // Clients of IPv4 are looked at as such, wherever they stand within IPv6.
        let (address, bits) = match address.to_canonical() {
            canonical if width_of(canonical) == width => (canonical, bits),
            canonical => (canonical, bits.checked_sub(128 - 32)?),
        };
        Some(Network { address, bits, text: text.to_owned() })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differs = own.to_bits() ^ other.to_bits();
                differs.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differs = own.to_bits() ^ other.to_bits();
                differs.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

fn width_of(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl Stored for Networks {
    fn to_value(&self) -> Value {
        Value::List(self.0.iter().map(|network| network.text.clone().into_bytes()).collect())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let words = words_of(value)?;
        if words.len() > NETWORKS_MAX {
            return Err(ValueError::NotNetworks);
        }
        let networks: Option<Vec<Network>> =
            words.iter().map(|word| Network::parse(std::str::from_utf8(word).ok()?)).collect();
        self.0 = networks.ok_or(ValueError::NotNetworks)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(words: &[&str]) -> Result<Networks, ValueError> {
        let mut networks = Networks::default();
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        networks.store(Value::List(words), Phase::RunTime).map(|()| networks)
    }

    fn list(words: &[&str]) -> Networks {
        networks(words).expect("they are networks")
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("it is an address")
    }

    #[test]
    fn an_address_is_in_its_network_and_in_no_other() {
        let some = list(&["10.0.0.5", "192.168.0.0/16", "fd00::/8", "172.16.0.1/31"]);
        for inside in ["10.0.0.5", "192.168.255.1", "fdff::1", "::ffff:10.0.0.5", "172.16.0.0"] {
            assert!(some.contains(address(inside)), "{inside}");
        }
        for outside in ["10.0.0.4", "192.169.0.1", "fe00::1", "::1", "127.0.0.1", "172.16.0.2"] {
            assert!(!some.contains(address(outside)), "{outside}");
        }
        assert!(!list(&[]).contains(address("127.0.0.1")));
        for within in ["::ffff:10.0.0.5", "::ffff:10.0.0.0/104"] {
            assert!(list(&[within]).contains(address("10.0.0.5")), "{within}");
            assert!(!list(&[within]).contains(address("11.0.0.5")), "{within}");
        }
        let all = list(&["0.0.0.0/0", "::/0"]);
        assert!(all.contains(address("8.8.8.8")) && all.contains(address("2001:db8::1")));
    }

    #[test]
    fn other_words_are_refused() {
        for word in [
            "localhost",
            "10.0.0.0/33",
            "::1/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "/8",
            "",
            "::ffff:10.0.0.0/8",
        ] {
            assert_eq!(networks(&[word]), Err(ValueError::NotNetworks), "{word}");
        }
        let many = vec!["10.0.0.1"; NETWORKS_MAX + 1];
        assert_eq!(networks(&many), Err(ValueError::NotNetworks));
    }
}
