-- find_broadcasts: tell a worker, between its heartbeats, which jobs for each worker it is to take.
--
-- KEYS[1] jobs      LIST+ waiting envelopes; behind `:broadcast` such jobs, see lib/broadcast.lua
-- KEYS[2] progress  HASH  lease -> envelope
--
-- Returns their ids.
local call = redis.call
local jobs, progress = KEYS[1], KEYS[2]

-- include clock
-- include broadcast
-- include open_broadcasts
return open_broadcasts()
