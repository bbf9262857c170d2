-- order: who is next. It stands behind line.lua; queue/line/order.go says what for.

local function parse(record)
  local owner, class, came, cost, key = match(record, '^(%S+) (%d+) (%d+) (%d+) (.*)$')
  return {owner = owner, class = class, arrival = tonumber(came), cost = tonumber(cost), key = key, purse = class .. ' ' .. key}
end

-- lookup returns the ticket with this id, nil if it is not in line.
local function lookup(id)
  local record = call('HGET', TICKETS, id)
  return record and parse(record) or nil
end

local ledger, closed = nil, {} -- the accounts by name; names of those forgotten

local function open(purse, used, waiting, head, last, cost)
  local class, key = match(purse, '^(%d+) (.*)$')
  return {
    purse = purse, class = class, key = key, prefix = format('%s %d ', class, #key) .. key .. ' ',
    urgency = class == '1' and 0 or class == '2' and 2 or 1, -- interactive, batch, default
    used = used, waiting = waiting, head = head, last = last, cost = cost,
  }
end

-- accounts returns all accounts, read when they are first needed.
local function accounts()
  if not ledger then
    ledger = {}
    local all = call('HGETALL', ACCOUNTS)
    for i = 1, #all, 2 do
      local used, waiting, head, last, cost = match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
      ledger[all[i]] = open(all[i], tonumber(used), tonumber(waiting), tonumber(head), tonumber(last), tonumber(cost))
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
    if a.changed then call('HSET', ACCOUNTS, purse, format('%.0f %d %.0f %.0f %.0f', a.used, a.waiting, a.head, a.last, a.cost)) end
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

-- runs says whether a slot runs a job of an account.
local function runs(a)
  for _, s in ipairs(slots) do
    if s.state == BUSY and s.purse == a.purse then return true end
  end
  return false
end

local function active(a) return a.waiting > 0 or runs(a) end

-- enter opens an account, at no less than the least counter of those active in its
-- class, and forgets the accounts that this rule would lift anyway.
local function enter(purse)
  local a = accounts()[purse]
  if a and active(a) then return a end
  a = a or open(purse, 0, 0, 0, 0, 0)
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
  if a and s.state == BUSY then a.used, a.last, a.changed = a.used + ran, math.max(a.last, till), true end
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

-- before is first come, first served; equal arrivals can only come from two stores.
local function before(t, other)
  if t.arrival ~= other.arrival then return t.arrival < other.arrival end
  return t.id < other.id
end

local cutoff = now - ARGV[11] -- who has gone without the slot since then starves

-- weigh readies an account with tickets in line for being compared: what it has used,
-- and since when it starves, if it does.
local function weigh(a)
  local since = math.max(a.head, a.last)
  a.level, a.starving = level(a), since <= cutoff and not runs(a) and since or nil
end

-- sooner says whether the first ticket of account a has its turn before that of b, or
-- before a ticket, which has the same fields and an id.
local function sooner(a, b)
  if a.starving and b.starving then
    if a.starving ~= b.starving then return a.starving < b.starving end
  elseif a.starving or b.starving then
    return a.starving ~= nil
  else
    if a.urgency ~= b.urgency then return a.urgency < b.urgency end
    if a.level ~= b.level then return a.level < b.level end
  end
  if a.head ~= b.head then return a.head < b.head end
  return nth(a, 0).id < (b.id or nth(b, 0).id)
end

-- foremost is the id of the ticket to be served now; somebody must wait.
local function foremost()
  local best
  for _, a in pairs(accounts()) do
    if a.waiting > 0 then
      weigh(a)
      if not best or sooner(a, best) then best = a end
    end
  end
  return nth(best, 0).id
end

-- ahead is how many tickets of an account have their turn before t.
local function ahead(a, t)
  if a == t.own then return t.index end
  if not sooner(a, t) then return 0 end
  local apart = t.level - a.level
  if t.starving or a.urgency > t.urgency or a.urgency == t.urgency and apart < 0 then return 1 end -- the starving one
  if a.urgency < t.urgency then return a.waiting end
  local rest = apart % books.typical
  local turns = (apart - rest) / books.typical
  if turns >= a.waiting then return a.waiting end
  if rest > 0 or before(turns == 0 and a.head ~= t.head and {arrival = a.head} or nth(a, turns), {arrival = t.head, id = t.id}) then
    turns = turns + 1
  end
  return math.max(1, turns)
end

local waiters -- the accounts with tickets in line

-- stand is where a job stands: 1 for the next in line and 0 for one that is not in line,
-- and what those before it may cost. Nothing may change after the first call.
local function stand(id)
  local t = lookup(id)
  if not t then return 0, 0 end
  if not waiters then
    waiters = {}
    for _, a in pairs(accounts()) do
      if a.waiting > 0 then
        weigh(a)
        waiters[#waiters + 1] = a
      end
    end
  end
  local own = ledger[t.purse]
  t.id, t.own, t.head, t.urgency = id, own, t.arrival, own.urgency
  t.index = call('ZLEXCOUNT', QUEUES, '[' .. own.prefix, '(' .. member(own, t.arrival, id))
  t.level = own.level + t.index * books.typical
  if t.index == 0 then t.starving = own.starving end
  local place, work = 1, 0
  for _, a in ipairs(waiters) do
    local n = ahead(a, t)
    place, work = place + n, work + n * math.floor(a.cost / a.waiting)
  end
  return place, work
end

-- tell_running fills in what the slots are doing that are not out of order, unless the
-- gate is closed.
local function tell_running()
  if books.gate ~= OPEN then return end
  for _, s in ipairs(slots) do
    if not sick(s.state) then
      running_for[#running_for + 1] = spent(s, s.purse, now)
      running_for[#running_for + 1] = s.state == BUSY and s.cost or 0
    end
  end
end
