//! Sources and bytes for the interpreter of scripts and its libraries: no panic, no way past a limit, and a
//! value that was encoded is decoded as it was.
//!
//! ```text
//!  input:  | the script that gets the rest, one byte | the rest: source, or bytes to decode |
//! ```
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use tarn_lua::{Abort, Failure, Host, Interpreter, Limits, Program, Purpose};
use tarn_resp::{Args, OwnedArgs, Protocol, Writer};

/// Memory of the interpreter, and looks at a script before it is ended.
const MEMORY_BYTES: usize = 16 << 20;
const LOOKS_MAX: usize = 20;

/// Whether two encodings are of one value: the same bytes in any order, since a table's keys have none.
macro_rules! same {
    ($rest:literal) => {
        concat!(
            "local function counts(text)
                 local of = {}
                 for i = 1, #text do local byte = text:byte(i) of[byte] = (of[byte] or 0) + 1 end
                 return of
             end
             local function same(one, other)
                 local ones, others = counts(one), counts(other)
                 for byte, count in pairs(ones) do if others[byte] ~= count then return false end end
                 return #one == #other
             end ",
            $rest
        )
    };
}

/// Scripts that decode their argument, and encode and decode that again. What `cmsgpack` packs the first time
/// may have lost values, below its deepest level.
const SCRIPTS: [&str; 7] = [
    "return loadstring(ARGV[1])",
    "local f = loadstring(ARGV[1]) return f and f()",
    same!(
        "local json = cjson.encode(cjson.decode(ARGV[1]))
         assert(same(cjson.encode(cjson.decode(json)), json), 'BUG ' .. json) return json"
    ),
    same!(
        "local values = {cmsgpack.unpack(ARGV[1])}
         local packed = cmsgpack.pack(cmsgpack.unpack(cmsgpack.pack(values)))
         assert(same(cmsgpack.pack(cmsgpack.unpack(packed)), packed), 'BUG')
         return values"
    ),
    "return {cmsgpack.unpack_limit(ARGV[1], 3, 1)}",
    "local half = math.floor(#ARGV[1] / 2)
     return {struct.unpack(ARGV[1]:sub(1, half), ARGV[1]:sub(half + 1))}",
    "return {struct.pack(ARGV[1], 1, 2, 'three', 4.5), struct.size(ARGV[1])}",
];

/// Those of them that assert it.
const ENCODERS: [usize; 2] = [2, 3];

struct Nothing(usize);

impl Host for Nothing {
    fn call(&mut self, _: OwnedArgs, protocol: Protocol, out: &mut Vec<u8>) -> Result<(), Abort> {
        Writer::new(out, protocol).ok();
        Ok(())
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn allows(&mut self, _: Args<'_>) -> Option<bool> {
        None
    }

    fn look(&mut self) -> Result<(), Abort> {
        self.0 += 1;
        if self.0 > LOOKS_MAX { Err(Abort) } else { Ok(()) }
    }
}

thread_local! {
    static COMPILED: RefCell<Option<(Interpreter, Vec<Program>)>> = const { RefCell::new(None) };
}

fn compiled() -> (Interpreter, Vec<Program>) {
    let limits = Limits { memory_bytes: MEMORY_BYTES };
    let interpreter = Interpreter::new(limits, "7.0.15", Purpose::Scripts).expect("it can be made");
    let compile = |source: &&str| interpreter.compile("user_script", source.as_bytes()).expect("it compiles");
    let programs = SCRIPTS.iter().map(compile).collect();
    (interpreter, programs)
}

fuzz_target!(|input: &[u8]| {
    let Some((which, rest)) = input.split_first() else { return };
    COMPILED.with_borrow_mut(|slot| {
        let (interpreter, programs) = slot.get_or_insert_with(compiled);
        let mut out = Vec::new();
        let mut reply = Writer::new(&mut out, Protocol::Resp3).limited(1 << 20);
        let which = usize::from(*which) % programs.len();
        let program = &programs[which];
        let outcome =
            interpreter.run(program, [].into_iter(), [rest].into_iter(), &mut Nothing(0), &mut reply);
        if let Err(Failure::Error { message, .. }) = outcome {
            // Errors of the others may quote the source.
            let text = String::from_utf8_lossy(&message);
            assert!(!ENCODERS.contains(&which) || !text.contains("BUG"), "{text}");
        }
        assert!(interpreter.memory_bytes() <= MEMORY_BYTES);
    });
});
