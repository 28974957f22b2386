-- stage: put jobs aside that come all or none, until they are committed.
--
-- KEYS[1] jobs    LIST+  waiting envelopes; behind `:staged:<bulk>` those that were put aside, see lib/staged.lua
-- ARGV[1] bulk    the id of all that come together
-- ARGV[2] before  how many of them were staged before
-- ARGV[3] and each of those that are staged now, at most 1000, as lib/staged.lua has it
--
-- Returns 'ok'; 'gone' where not so many are there as before, or they were committed: nothing was written then.
-- Invariant: each is staged once and in its place, however often this is repeated. What is not committed within an hour after this is gone.
local call = redis.call
local jobs = KEYS[1]
local bulk, before = ARGV[1], tonumber(ARGV[2])
local staged = jobs .. ':staged:' .. bulk

local there = call('LLEN', staged)
if there == before + #ARGV - 2 then return 'ok' end
if there ~= before or call('LPOS', staged, '!', 'RANK', -1, 'MAXLEN', 1) then return 'gone' end
call('RPUSH', staged, unpack(ARGV, 3))
call('EXPIRE', staged, 3600)
return 'ok'
