-- times: remember how long jobs had their slots, and tell what is remembered. It stands
-- alone, without the policy.
--
-- KEYS[1] list of "key size microseconds", the latest first; the key is a number that
--         stands for its name
-- ARGV[1] how many are kept
-- ARGV[2] and what follows: more of them, the latest last; no more than are kept
-- returns all
if ARGV[2] then
  redis.call('LPUSH', KEYS[1], unpack(ARGV, 2))
  redis.call('LTRIM', KEYS[1], 0, ARGV[1] - 1)
end
return redis.call('LRANGE', KEYS[1], 0, -1)
