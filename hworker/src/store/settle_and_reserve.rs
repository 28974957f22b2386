// The text of `settle_and_reserve`: `settle`, and then `reserve`, as they are in files of their own, in one call. For a single job a
// second call would cost the server as much as what it does. Where `reserve` fails, what `settle` did stays done; it is sent again then, as
// after a reply that was lost.
//
// KEYS are those of `settle`, then the worker's inbox; ARGV those of `settle`, then the first five of
// `reserve`. Returns what `reserve` returns, and behind it, in the same list, what `settle` does: to read lists within a list takes a worker
// longer than what is in them.
concat!(
    "local function settle(KEYS, ARGV)\n",
    include_str!("settle.lua"),
    "end\nlocal function reserve(KEYS, ARGV)\n",
    include_str!("reserve.lua"),
    "end\n",
    "local asked = {unpack(ARGV, #ARGV - 4)}\n",
    "for i = #ARGV, #ARGV - 4, -1 do ARGV[i] = nil end\n",
    "local settled\n",
    "settled, asked[6] = settle(KEYS, ARGV)\n",
    "local reply = reserve({KEYS[9], KEYS[12], KEYS[1], KEYS[11], KEYS[6], KEYS[7], KEYS[2], KEYS[10]}, asked)\n",
    "for i = 1, #settled do reply[#reply + 1] = settled[i] end\n",
    "return reply\n",
)
