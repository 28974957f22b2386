-- cron: what runs again and again.
-- Needs call, jobs, and lib/timers. Makes cron and set_next.
--
-- `cron` has for each entry `code:<entry>`, what the table in force says of it, `set:<entry>`, what somebody set instead, `next:<entry>`, when
-- it is due in ms, `paused:<entry>`, since when in ms, `fired:<entry>`, how many runs it had, and `runs:<entry>`, the last of them, a line
-- each: when it was due in ms, and what became of it.
local cron = jobs .. ':cron'

-- '' for never again.
local function set_next(entry, due)
  call('ZREM', timers, '@' .. entry)
  if due == '' then
    call('HDEL', cron, 'next:' .. entry)
    return
  end
  call('HSET', cron, 'next:' .. entry, due)
  if call('HEXISTS', cron, 'paused:' .. entry) == 0 then set_timer('@' .. entry, tonumber(due), 'CH') end
end
