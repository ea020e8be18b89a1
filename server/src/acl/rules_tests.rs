//! Tests of rules, and of writing them down.

use proptest::prelude::*;

use crate::acl::catalog::{CATEGORIES, Catalog, sample};
use crate::acl::registry::Acl;
use crate::acl::rules::{RuleError, merge_selectors};
use crate::acl::user::{User, UserId};

fn new(catalog: &Catalog) -> User {
    User::new(b"alice", UserId(1), catalog, false)
}

fn described(rules: &[&str]) -> String {
    let catalog = sample();
    let mut user = new(&catalog);
    for rule in rules {
        user.apply(rule.as_bytes(), &catalog, false).unwrap_or_else(|error| panic!("{rule}: {error}"));
    }
    String::from_utf8(user.describe(&catalog)).expect("ASCII")
}

#[test]
fn rules_are_written_down_as_redis_does() {
    let head = "off";
    for (rules, text) in [
        (&[][..], "resetchannels -@all"),
        (&["+get"], "resetchannels -@all +get"),
        (&["+get", "+strlen"], "resetchannels -@all +@read"),
        (&["+@all", "-get"], "resetchannels +@all -get"),
        (&["+@all", "-@admin"], "resetchannels +@all -@admin"),
        (&["+config"], "resetchannels -@all +@admin +config -debug"),
        (&["+config|get"], "resetchannels -@all +config|get"),
        (&["+config", "-config|set"], "resetchannels -@all +config -config|set"),
        (&["+@all", "-cluster", "-Psync", "-cluster|info"], "resetchannels +@all"),
        (&["+psync", "+cluster", "+cluster|info", "+cluster|x|y"], "resetchannels -@all"),
        (&["+select|0", "+SELECT|1", "+select|0"], "resetchannels -@all +select|0 +select|1"),
        (&["~a", "%R~b", "%w~c", "%RW~d", "%R~c"], "~a %R~b ~c ~d resetchannels -@all"),
        (&["allkeys", "allchannels"], "~* &* -@all"),
        (&["&a", "&b*"], "resetchannels &a &b* -@all"),
        (&["db=3,1"], "resetchannels db=1,3 -@all"),
        (&["db=1", "resetdbs"], "resetchannels resetdbs -@all"),
        (&["+get", "(+set ~b)"], "resetchannels -@all +get (~b resetchannels -@all +@write)"),
        (&["+get", "(+set)", "clearselectors"], "resetchannels -@all +get"),
        (&["%R", "%RW"], "~ resetchannels -@all"),
        (&["%R~*", "%W~*", "~a"], "%RW~* ~a resetchannels -@all"),
        (&["on", "~a", "+@all", "reset"], "sanitize-payload resetchannels -@all"),
        (&["skip-sanitize-payload"], "skip-sanitize-payload resetchannels -@all"),
    ] {
        assert_eq!(described(rules), format!("{head} {text}"), "{rules:?}");
    }
}

#[test]
fn wrong_rules_are_refused_in_the_words_of_redis() {
    let catalog = sample();
    for (before, rule, error) in [
        ("", "+nothing", RuleError::Unknown),
        ("", "-nothing", RuleError::Unknown),
        ("", "+@nothing", RuleError::Unknown),
        ("", "+config|nothing", RuleError::Unknown),
        ("", "-get|x", RuleError::Unknown),
        ("", "-debug|sleep", RuleError::Unknown),
        ("", "+config|get|x", RuleError::OfSubcommand),
        ("", "+get|", RuleError::Syntax),
        ("", "nonsense", RuleError::Syntax),
        ("", "%X~a", RuleError::Syntax),
        ("", "%~a", RuleError::Syntax),
        ("", "%", RuleError::Syntax),
        ("", "~a b", RuleError::Syntax),
        ("", "&a\tb", RuleError::Syntax),
        ("", "(+nothing)", RuleError::Unknown),
        ("", "(\"~a'b\")", RuleError::Syntax),
        ("", "(+get \"~a)", RuleError::Syntax),
        ("", "(~a) +get)", RuleError::Syntax),
        ("allkeys", "~a", RuleError::AfterAllKeys),
        ("allchannels", "&a", RuleError::AfterAllChannels),
        ("", "<absent", RuleError::NoSuchPassword),
        ("", "#abc", RuleError::NoHash),
        ("", "!abc", RuleError::NoHash),
        ("", "db=", RuleError::Syntax),
        ("", "db=1,,2", RuleError::Syntax),
        ("", "db=x", RuleError::Syntax),
        ("", "db=-1", RuleError::NoDatabase),
        ("", "db=12345678987654321", RuleError::NoDatabase),
        ("", "db=99999999999999999999", RuleError::NoDatabase),
        ("", "db=2147483648", RuleError::NoDatabase),
    ] {
        let mut user = new(&catalog);
        user.apply(before.as_bytes(), &catalog, false).expect("a rule");
        assert_eq!(user.apply(rule.as_bytes(), &catalog, false), Err(error), "{rule}");
    }
}

fn merged(words: &[&str]) -> Result<Vec<String>, usize> {
    let merged = merge_selectors(words.iter().map(|word| word.as_bytes()))?;
    Ok(merged.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

#[test]
fn a_selector_may_be_written_in_several_words() {
    let words = ["on", "(+get ~a)", "(+set)"].map(String::from).to_vec();
    assert_eq!(merged(&["on", "(+get", "~a)", "(+set)"]), Ok(words));
    assert_eq!(merged(&["on", "(+get", "~a"]), Err(1));
}

#[test]
fn a_first_argument_allows_a_command_that_is_not_allowed_otherwise() {
    let (acl, select) = (Acl::new(sample()), 8);
    let user = acl.change(b"alice", &["+select|0"], false).expect("a rule").after;
    let allows = |arg: &[u8]| user.root().allows_command(acl.catalog(), select, Some(arg));
    assert!(allows(b"0") && !allows(b"1"));
    assert!(!user.root().allows_command(acl.catalog(), select, None));
    let user = acl.change(b"alice", &["-select"], false).expect("a rule").after;
    assert!(!user.root().allows_command(acl.catalog(), select, Some(b"0")));
}

/// A rule, mostly a right one.
fn rule() -> impl Strategy<Value = String> {
    let commands = ["get", "set", "strlen", "config", "config|get", "config|set", "debug", "select"];
    let command = (prop::sample::select(commands.to_vec()), any::<bool>())
        .prop_map(|(name, adds)| format!("{}{name}", if adds { '+' } else { '-' }));
    let category = (prop::sample::select(CATEGORIES), any::<bool>())
        .prop_map(|(name, adds)| format!("{}{name}", if adds { '+' } else { '-' }));
    let flags = [
        "on",
        "off",
        "nopass",
        "resetpass",
        "allkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "+@all",
        "-@all",
        "alldbs",
        "resetdbs",
        "db=1,2",
        "+select|0",
        "+debug|sleep",
        "sanitize-payload",
        "skip-sanitize-payload",
        ">secret",
        ">other",
        "(+get ~x)",
        "(%R~y &c -@all +@read)",
        "clearselectors",
        "reset",
    ];
    let pattern = (prop::sample::select(vec!["~", "%R~", "%W~", "&"]), "[a-c*?]{0,3}")
        .prop_map(|(head, pattern)| format!("{head}{pattern}"));
    prop_oneof![command, category, prop::sample::select(flags.to_vec()).prop_map(str::to_owned), pattern]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2048) })]

    #[test]
    fn what_is_written_down_makes_the_same_user_again(rules in prop::collection::vec(rule(), 0..12)) {
        let catalog = sample();
        let mut user = new(&catalog);
        for rule in &rules {
            let before = user.clone();
            if user.apply(rule.as_bytes(), &catalog, false).is_err() {
                user = before;
            }
        }
        let text = user.describe(&catalog);
        let mut again = new(&catalog);
        let words = merge_selectors(text.split(|byte| *byte == b' ')).expect("parentheses match");
        for rule in &words {
            let applied = again.apply(rule, &catalog, false);
            prop_assert!(applied.is_ok(), "a rule of {}", String::from_utf8_lossy(&text));
        }
        let written = again.describe(&catalog);
        prop_assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&text));
        for (own, other) in user.selectors().zip(again.selectors()) {
            for (number, _) in catalog.shown() {
                for arg in [None, Some(&b"0"[..]), Some(b"sleep")] {
                    let allows = own.allows_command(&catalog, number, arg);
                    prop_assert_eq!(allows, other.allows_command(&catalog, number, arg));
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_a_rule_panic(rule in prop::collection::vec(any::<u8>(), 0..20)) {
        let catalog = sample();
        let _ = new(&catalog).apply(&rule, &catalog, false);
    }
}
