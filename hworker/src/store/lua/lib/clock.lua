-- clock: the server's time.
-- Needs call. Makes time, seconds and microseconds, and now, in ms.
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
