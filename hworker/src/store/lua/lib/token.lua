-- token: the number after which the next token comes. What gives tokens writes the last of them to token_key.
-- Needs call, token_key, time. Makes token, and mark: '+' where it is marked, see lib/mark.lua, or nil. It has to be written again.
--
-- A token that is no whole number, or beyond those that the server spells as one, is somebody else's doing: begin at the
-- time.
local text = call('GET', token_key) or '0'
local last, mark = tonumber(text), nil
if not last then
  last = tonumber(string.match(text, '^(%d+)%+$'))
  last, mark = last or 0, last and '+'
end
if not (last < 2 ^ 52 - 10000) then last = 0 end
local token = math.max(math.floor(last), time[1] * 1000000 + time[2] - 1)
-- Redis 7.2.0 to 7.2.4 spell a number that ends in eight zeros as a power of ten: none of the 2000 that follow is one.
if token % 1e8 >= 1e8 - 2000 then token = token - token % 1e8 + 1e8 end
