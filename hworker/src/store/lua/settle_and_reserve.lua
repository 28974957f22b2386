-- settle_and_reserve: settle acks, and then reserve, in one call.
--
-- KEYS[1..10] the first of settle: no ack needs the others
-- KEYS[11] inbox  LIST  what the server handed to the worker while it waited, oldest at the right
-- ARGV[1] those of settle, then the first six of reserve
--
-- Returns what reserve returns, and behind it, in the same list, what settle does: to read lists within a list takes a worker longer
-- than what is in them.
-- Invariant: where reserve fails, what settle did stays done; the worker sends it again, as after a reply that was lost.

-- For a single job a second call would cost the server as much as what it does.
local function settle(KEYS, ARGV)
-- include settle
end

local function reserve(KEYS, ARGV)
-- include reserve
end

local asked = {unpack(ARGV, #ARGV - 5)}
for i = #ARGV, #ARGV - 5, -1 do ARGV[i] = nil end
local settled
settled, asked[7] = settle(KEYS, ARGV)
local reply = reserve({KEYS[8], KEYS[11], KEYS[1], KEYS[10], KEYS[5], KEYS[6], KEYS[2], KEYS[9], KEYS[4]}, asked)
for i = 1, #settled do reply[#reply + 1] = settled[i] end
return reply
