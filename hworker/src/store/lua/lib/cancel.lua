-- cancel: order a worker to end a job that it runs.
-- Needs call. Makes order_to_cancel.
-- The order stands in the record of the worker until the lease is gone, so that neither a lost connection nor the death of the worker loses it.
local function order_to_cancel(of_worker, worker_record, lease)
  if redis.pcall('HEXISTS', of_worker, lease) ~= 1 then return false end
  -- Where somebody made another type of the record, there is no order: what called this has written by then.
  local orders = redis.pcall('HGET', worker_record, 'cancel') or ''
  if type(orders) ~= 'string' then return false end
  if not string.find('\n' .. orders .. '\n', '\n' .. lease .. '\n', 1, true) then
    call('HSET', worker_record, 'cancel', orders == '' and lease or orders .. '\n' .. lease)
  end
  return true
end
