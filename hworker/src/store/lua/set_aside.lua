-- set_aside: give a key another name, if it is still of another type than it should have.
--
-- KEYS[1] key    ANY  of a queue, or of all queues
-- KEYS[2] aside  ANY  its new name, at which nobody looks
-- ARGV[1] wanted  the type that it should have
--
-- Returns 1, or 0 where it is of that type by now, or gone.
-- Invariant: a key of the wanted type keeps its name.
local call = redis.call
local key, aside = KEYS[1], KEYS[2]

local found = call('TYPE', key).ok
if found == ARGV[1] or found == 'none' then return 0 end
return call('RENAMENX', key, aside)
