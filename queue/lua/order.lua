-- order: who is next. It stands behind line.lua; queue/line/order.go says what for.

local function parse(record)
  local owner, class, came, key = match(record, '^(%S+) (%d+) (%d+) (.*)$')
  return {owner = owner, class = class, arrival = tonumber(came), key = key, purse = class .. ' ' .. key}
end

-- lookup returns the ticket with this id, nil if it is not in line.
local function lookup(id)
  local record = call('HGET', TICKETS, id)
  return record and parse(record) or nil
end

local ledger, closed = nil, {} -- the accounts by name; names of those forgotten

local function open(purse, used, waiting, head)
  local class, key = match(purse, '^(%d+) (.*)$')
  return {
    purse = purse, class = class, key = key, prefix = format('%s %d ', class, #key) .. key .. ' ',
    urgency = class == '1' and 0 or class == '2' and 2 or 1, -- interactive, batch, default
    used = used, waiting = waiting, head = head,
  }
end

-- accounts returns all accounts, read when they are first needed.
local function accounts()
  if not ledger then
    ledger = {}
    local all = call('HGETALL', ACCOUNTS)
    for i = 1, #all, 2 do
      local used, waiting, head = match(all[i + 1], '^(%d+) (%d+) (%d+)$')
      ledger[all[i]] = open(all[i], tonumber(used), tonumber(waiting), tonumber(head))
    end
  end
  return ledger
end

-- keep_accounts writes what has changed.
local function keep_accounts()
  for purse in pairs(closed) do
    if not ledger[purse] then call('HDEL', ACCOUNTS, purse) end
  end
  for purse, a in pairs(ledger or {}) do
    if a.changed then call('HSET', ACCOUNTS, purse, format('%.0f %d %.0f', a.used, a.waiting, a.head)) end
  end
end

-- spent is how long a slot has been running a job of this purse.
local function spent(s, purse, till)
  if s.state ~= BUSY or s.purse ~= purse then return 0 end
  return math.max(0, till - s.since)
end

-- level is what an account has used, with what runs.
local function level(a)
  local used = a.used
  for _, s in ipairs(slots) do used = used + spent(s, a.purse, now) end
  return used
end

local function active(a)
  if a.waiting > 0 then return true end
  for _, s in ipairs(slots) do
    if s.state == BUSY and s.purse == a.purse then return true end
  end
  return false
end

-- enter opens an account, at no less than the least counter of those active in its
-- class, and forgets the accounts that this rule would lift anyway.
local function enter(purse)
  local a = accounts()[purse]
  if a and active(a) then return a end
  a = a or open(purse, 0, 0, 0)
  local least = math.huge -- nobody is active: all start anew
  for _, other in pairs(ledger) do
    if other.class == a.class and active(other) then least = math.min(least, level(other)) end
  end
  for name, other in pairs(ledger) do
    if name ~= purse and other.class == a.class and other.used <= least and not active(other) then
      ledger[name], closed[name] = nil, true
    end
  end
  a.used = least == math.huge and 0 or math.max(a.used, least)
  ledger[purse], a.changed = a, true
  return a
end

-- charge books what a job has run until till on its account.
local function charge(s, till)
  local a, ran = accounts()[s.purse], spent(s, s.purse, till)
  if a then a.used, a.changed = a.used + ran, true end
  return ran
end

-- bill charges a job that gave its slot back, and learns from it what slot times are
-- typical. An hour is the longest.
local function bill(s)
  if s.state == BUSY then
    books.typical = math.max(1, math.floor((7 * books.typical + math.min(charge(s, now), 3600000000)) / 8))
  end
end

-- member is how a ticket is written in QUEUES.
local function member(a, arrival, id) return a.prefix .. format('%016.0f', arrival) .. id end

-- nth returns a ticket of an account by its place, from 0. ZRANGEBYLEX would walk there.
local function nth(a, i)
  local from = call('ZLEXCOUNT', QUEUES, '-', '(' .. a.prefix) + i
  local text = call('ZRANGE', QUEUES, from, from)[1]
  return {arrival = tonumber(string.sub(text, #a.prefix + 1, #a.prefix + 16)), id = string.sub(text, #a.prefix + 17)}
end

-- before is first come, first served. Equal arrivals stand in LINE by their ids.
local function before(t, other)
  if t.arrival ~= other.arrival then return t.arrival < other.arrival end
  return call('ZRANK', LINE, t.id) < call('ZRANK', LINE, other.id)
end

-- sooner says which of two accounts is served first.
local function sooner(a, b)
  if a.urgency ~= b.urgency then return a.urgency < b.urgency end
  if a.level ~= b.level then return a.level < b.level end
  if a.head ~= b.head then return a.head < b.head end
  return before(nth(a, 0), nth(b, 0))
end

local cutoff = now - ARGV[11] -- the arrival of the youngest ticket that starves

-- foremost is the id of the ticket to be served now; somebody must wait.
local function foremost()
  local oldest = call('ZRANGE', LINE, 0, 0, 'WITHSCORES')
  if tonumber(oldest[2]) <= cutoff then return oldest[1] end
  local best
  for _, a in pairs(accounts()) do
    if a.waiting > 0 then
      a.level = level(a)
      if not best or sooner(a, best) then best = a end
    end
  end
  return nth(best, 0).id
end

-- ahead is how many tickets of an account have their turn before t, by class and
-- counter.
local function ahead(a, t)
  if a == t.own then return t.index end
  local apart = t.counter - a.level
  if a.urgency ~= t.urgency then return a.urgency < t.urgency and a.waiting or 0 end
  if apart < 0 then return 0 end
  local rest = apart % books.typical
  local turns = (apart - rest) / books.typical
  if turns >= a.waiting then return a.waiting end
  if rest > 0 or before(turns == 0 and a.head ~= t.arrival and {arrival = a.head} or nth(a, turns), t) then
    turns = turns + 1
  end
  return turns
end

local waiters -- the accounts with tickets in line, how long they are and how many starve

-- position is 1 for the next in line and 0 for a job that is not in line. Nothing
-- may change after the first call.
local function position(id)
  local t = lookup(id)
  if not t then return 0 end
  if t.arrival <= cutoff then return call('ZRANK', LINE, id) + 1 end
  local starving = call('ZCOUNT', LINE, '-inf', int(cutoff))
  if not waiters then
    waiters = {}
    for _, a in pairs(accounts()) do
      if a.waiting > 0 then
        a.level, a.starving = level(a), 0
        if starving > 0 then
          a.starving = call('ZLEXCOUNT', QUEUES, '[' .. a.prefix, '(' .. member(a, cutoff + 1, ''))
        end
        waiters[#waiters + 1] = a
      end
    end
  end
  local own = ledger[t.purse]
  local index = call('ZLEXCOUNT', QUEUES, '[' .. own.prefix, '(' .. member(own, t.arrival, id))
  t.id, t.own, t.index, t.urgency, t.counter = id, own, index, own.urgency, own.level + index * books.typical
  for _, a in ipairs(waiters) do starving = starving + math.max(0, ahead(a, t) - a.starving) end
  return starving + 1
end
