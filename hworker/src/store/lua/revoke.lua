-- revoke: take a lease from the worker that holds it and put the job back to the front.
--
-- KEYS[1] progress  HASH  lease -> envelope
-- KEYS[2] jobs      LIST+ envelopes; the right end is taken next; with `:<list>` behind it those of a list beside it
-- KEYS[3] record    HASH  the worker's record
-- ARGV[1] lease
--
-- Returns 'ok', or 'missing' when it is not held.
-- Invariant: an envelope leaves `progress` and enters the list that its lease names in the same script.
local call = redis.call
local progress, jobs = KEYS[1], KEYS[2]
local lease = ARGV[1]

-- Looked at before anything is taken: a key that somebody made another type of is an error here, and not half-way.
-- include lists
local ordered = call('HGET', KEYS[3], 'cancel')
-- include ordered
-- include broadcast
look_at_list(goes_to(lease))

local envelope = call('HGET', progress, lease)
if not envelope then return 'missing' end
call('HDEL', progress, lease)
free(lease, progress)
local is_copy = broadcast_of(lease)
if is_copy then note_broadcast(lease, is_ordered(lease) and 'd' or nil) end
if not is_copy or is_ordered(lease) then push('RPUSH', goes_to(lease), envelope) end
tell_of_room()
return 'ok'
