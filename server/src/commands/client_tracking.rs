//! `CLIENT TRACKING` and the subcommands beside it.

use tarn_resp::Args;

use crate::error::{CommandError, printable};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::rights::refuse_prefix;
use crate::execute::showing::redirect;
use crate::net::tracks::TrackFlags;
use crate::pubsub::{Overlap, overlap};

const FLAGS: [(&str, TrackFlags); 4] = [
    ("bcast", TrackFlags::BCAST),
    ("optin", TrackFlags::OPTIN),
    ("optout", TrackFlags::OPTOUT),
    ("noloop", TrackFlags::NOLOOP),
];
const CACHES_NOTHING: CommandError = CommandError::text(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
     enabled",
);
const BCAST_SWITCHED: CommandError = CommandError::text(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling \
     it with a different mode.",
);
const OPT_SWITCHED: CommandError = CommandError::text(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
     it with a different mode.",
);

/// The words behind `CLIENT TRACKING ON|OFF`.
#[derive(Default)]
struct Options<'a> {
    flags: TrackFlags,
    redirect: u64,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn of(cx: &Context<'_, '_>, args: Args<'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut words = args.tail(3).iter();
        while let Some(word) = words.next() {
            if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))
            {
                options.flags = options.flags.with(*flag);
            } else if word.eq_ignore_ascii_case(b"redirect") {
                let id = words.next().ok_or(CommandError::Syntax)?;
                if options.redirect != 0 {
                    return Err(CommandError::text(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                let id = parse::integer(id)?;
                let there = u64::try_from(id).ok().and_then(|id| cx.server.clients.get(id));
                let gone = CommandError::text("ERR The client ID you want redirect to does not exist");
                options.redirect = there.ok_or(gone)?.id;
            } else if word.eq_ignore_ascii_case(b"prefix") {
                options.prefixes.push(words.next().ok_or(CommandError::Syntax)?);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// Checks that they fit together, and what the client has.
    fn check(&self, cx: &Context<'_, '_>) -> Result<(), CommandError> {
        let (now, flags) = (cx.client.handle.tracks.flags(), self.flags);
        let is_bcast = flags.has(TrackFlags::BCAST);
        if !is_bcast && !self.prefixes.is_empty() {
            return Err(CommandError::text("ERR PREFIX option requires BCAST mode to be enabled"));
        }
        if now.has(TrackFlags::ON) && now.has(TrackFlags::BCAST) != is_bcast {
            return Err(BCAST_SWITCHED);
        }
        let (optin, optout) = (flags.has(TrackFlags::OPTIN), flags.has(TrackFlags::OPTOUT));
        if is_bcast && (optin || optout) {
            return Err(CommandError::text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if optin && optout {
            return Err(CommandError::text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
        }
        if optin && now.has(TrackFlags::OPTOUT) || optout && now.has(TrackFlags::OPTIN) {
            return Err(OPT_SWITCHED);
        }
        let (one, of, other) = match overlap(&cx.client.prefixes, &self.prefixes) {
            None => return Ok(()),
            Some(Overlap::Existing(one, other)) => (one, "an existing", other),
            Some(Overlap::Provided(one, other)) => (one, "another provided", other),
        };
        Err(CommandError::owned(format!(
            "ERR Prefix '{}' overlaps with {of} prefix '{}'. Prefixes for a single client must not overlap.",
            printable(one),
            printable(other)
        )))
    }
}

pub(super) fn tracking<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mut options = Options::of(cx, args)?;
    let is_on = parse::on_off(args.at(2))?;
    if is_on {
        options.check(cx)?;
        if options.flags.has(TrackFlags::BCAST) && options.prefixes.is_empty() {
            options.prefixes.push(b"");
        }
        // Each change of such a key would be told, also those of others.
        if options.flags.has(TrackFlags::BCAST) {
            let place = |prefix: &&[u8]| {
                let is_it = |at: &usize| !prefix.is_empty() && args.at(*at) == *prefix;
                (3..args.len()).find(is_it).unwrap_or_default()
            };
            let refuse = |at| refuse_prefix(cx.server, cx.client, super::table(), args, at);
            if let Some(refusal) = options.prefixes.iter().map(place).find_map(refuse) {
                return Err(refusal);
            }
        }
        let (client, Options { flags, redirect, prefixes }) = (&mut *cx.client, options);
        cx.server.tracking.begin(&client.handle, flags, redirect, &mut client.prefixes, &prefixes);
        client.look_again_if_rules_have_changed(&cx.server.acl);
        let bytes: usize = client.prefixes.iter().map(|prefix| PREFIX_BYTES + 2 * prefix.len()).sum();
        if bytes as u64 > cx.server.live.query_buffer_limit_bytes() {
            cx.client.close_for("the prefixes that it tracks are longer than client-query-buffer-limit");
        }
    } else {
        cx.server.tracking.end(&cx.client.handle, &mut cx.client.prefixes);
    }
    cx.reply.ok();
    Ok(())
}

/// Bytes of memory that a prefix takes, about, beside its name.
const PREFIX_BYTES: usize = 256;

pub(super) fn caching<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let tracks = &cx.client.handle.tracks;
    let (flags, word) = (tracks.flags(), args.at(2));
    if !flags.has(TrackFlags::ON) {
        return Err(CACHES_NOTHING);
    }
    if word.eq_ignore_ascii_case(b"yes") {
        if !flags.has(TrackFlags::OPTIN) {
            return Err(CommandError::text(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
    } else if word.eq_ignore_ascii_case(b"no") {
        if !flags.has(TrackFlags::OPTOUT) {
            return Err(CommandError::text(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
    } else {
        return Err(CommandError::Syntax);
    }
    tracks.set_flag(TrackFlags::CACHING, true);
    cx.reply.ok();
    Ok(())
}

pub(super) fn getredir<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.integer(redirect(&cx.client.handle));
    Ok(())
}

pub(super) fn trackinginfo<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    let flags = cx.client.handle.tracks.flags();
    let has = |flag| flags.has(flag);
    let is_said = has(TrackFlags::CACHING);
    let words = [
        ("off", !has(TrackFlags::ON)),
        ("on", has(TrackFlags::ON)),
        ("bcast", has(TrackFlags::BCAST)),
        ("optin", has(TrackFlags::OPTIN)),
        ("caching-yes", has(TrackFlags::OPTIN) && is_said),
        ("optout", has(TrackFlags::OPTOUT)),
        ("caching-no", has(TrackFlags::OPTOUT) && is_said),
        ("noloop", has(TrackFlags::NOLOOP)),
        ("broken_redirect", has(TrackFlags::BROKEN)),
    ];
    let words: Vec<&str> = words.into_iter().filter_map(|(word, holds)| holds.then_some(word)).collect();
    let redirect = redirect(&cx.client.handle);
    let reply = &mut cx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(words.len());
    words.iter().for_each(|word| reply.bulk(word.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(cx.client.prefixes.len());
    cx.client.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
