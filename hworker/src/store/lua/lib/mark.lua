-- mark: have `reserve`, which reads the last token whatever it does, look at more than the plain list: by a `+` behind it.
-- Needs call, token_key.
local last = call('GET', token_key) or '0'
if string.sub(last, -1) ~= '+' then call('SET', token_key, last .. '+') end
