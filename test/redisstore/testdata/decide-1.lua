-- The decision rule at the data: it decides requests in order, each over one or more keys, all or nothing.
--
-- KEYS     one for every charge
-- ARGV[1]  packed: the time in microseconds or -1 for the server's own, and the milliseconds that a state outlives its
--          meaning or -1 to keep it for ever (for tests). If there is nothing else, the limit and the cost of a take of one
--          charge over a window in one part follow in the same text: the commonest request by far
-- ARGV[2]  empty if there are many of these; then ARGV[3] has their limits, packed, and ARGV[4] for every charge which
--          limit it has, and its cost
-- ARGV[2+] or else one packed text for every charge; the first charge of a request says how many it has
--
-- It returns one string: the time, then for every charge what it decided and the state that the answer is derived from.
--
-- Lua counts in doubles, which are exact for whole numbers below 2^53. Everything here stays below that: muldiv takes
-- products apart that would not, and limits for which that is not enough are refused before they get here.
local pack, unpack_, call = struct.pack, struct.unpack, redis.call

local EXACT = 9007199254740992 -- 2^53
local MOST = EXACT - 1 -- where counts saturate
local NOTHING = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- a state that there is not

local now, grace, quota, window, cost, fixed, anchored, denied, overlap
local many = ARGV[2]
if many then
  now, grace = unpack_('<dd', ARGV[1])
else
  now, grace, fixed, anchored, denied, overlap, quota, window, cost = unpack_('<ddBBBBddd', ARGV[1])
end
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- muldiv returns floor(a*b/c) and what is left, for b <= c < 2^48. It multiplies digit by digit, the highest first, with
-- digits small enough that no step leaves the exact range.
local function muldiv(a, b, c)
  local floor, product = math.floor, a * b
  if product < EXACT then
    local quotient = floor(product / c)
    return quotient, product - quotient * c
  end
  local base, digit = 1, 2 * c
  while digit * 2 <= EXACT do
    base, digit = base * 2, digit * 2
  end
  local place = 1
  while place * base <= a do
    place = place * base
  end
  local quotient, rest = 0, 0
  while place >= 1 do
    local d = floor(a / place)
    a = a - d * place
    local x = rest * base + d * b
    local q = floor(x / c)
    quotient, rest = quotient * base + q, x - q * c
    place = place / base
  end
  return quotient, rest
end

-- Windows in one part, each taken from by itself -----------------------------------------------------------------------

-- saveOne writes the value of a window. While its start stays, so does the time at which it expires.
local function saveOne(key, value, was, start, fixed, window)
  if grace < 0 then
    call('SET', key, value)
  elseif start == was then
    call('SET', key, value, 'KEEPTTL')
  else
    call('SET', key, value, 'PX', math.max(1, math.ceil((start + (2 - fixed) * window - now) / 1000) + grace))
  end
end

-- What follows is the rule of the general part below for counts of two or one, written out: a function or a table for each
-- charge would take longer than deciding. Of many charges, everything is read at once and written at the end, a key that is
-- asked for several times once.
if not many or many == '' then
  local n, limits, charges, values, first, was, starts, changed, replies, char = 1
  if many then
    n, limits, charges, values = #KEYS, ARGV[3], ARGV[4], call('MGET', unpack(KEYS))
    first, was, starts, changed, replies = {}, {}, {}, {}, { pack('<d', now) }
    char = string.char
  end
  local limit = -1
  for i = 1, n do
    local key, k, value = KEYS[i], i
    if many then
      local which
      which, cost = unpack_('<Hd', charges, 10 * i - 9)
      if which ~= limit then
        limit = which
        fixed, anchored, denied, overlap, quota, window = unpack_('<BBBBdd', limits, 20 * which + 1)
      end
      k = first[key] or i
      first[key] = k
      value = values[k]
    else
      value = call('GET', key)
    end

    local start, current, previous = nil, 0, 0
    if value and fixed == 1 then
      start, current = unpack_('<dd', value)
    elseif value then
      start, current, previous = unpack_('<ddd', value)
    end
    -- flags: 1 allowed, 2 the clock had moved, 4 there is no state
    local s, c, p, at, flags = start, current, previous, now, 0
    if not s then
      s, flags = anchored == 1 and now or now - now % window, 4
    else
      local since = now - s
      if since >= window then
        if fixed == 0 and since < 2 * window then
          s, p, c = s + window, c, 0
        else
          s, c, p = anchored == 1 and now or now - now % window, 0, 0
        end
      elseif since < -window then
        s, flags = anchored == 1 and now or now - now % window, 2
      elseif since < 0 then
        at = s
      end
    end

    local used = c
    if p > 0 then
      local covered = s + window - at
      if covered == window or overlap == 2 then
        used = used + p
      else
        local quotient, left = muldiv(p, covered, window)
        used = used + quotient
        if overlap == 0 and left > 0 then
          used = used + 1
        end
      end
    end

    local allowed = used + cost <= quota
    local charged = cost > 0 and (allowed or denied == 1 and cost <= quota)
    local told = value -- what is stored
    if charged or flags == 2 and not allowed then
      if charged then
        c = c + cost
        if c > MOST then
          c = MOST
        end
        flags = flags % 4
      end
      told = pack('<ddd', s, c, p)
      value = fixed == 1 and string.sub(told, 1, 16) or told
      if not many then
        saveOne(key, value, start, s, fixed, window)
      else
        if not changed[k] then
          was[k] = start
        end
        values[k], starts[k], changed[k] = value, s, limit
      end
    elseif not told then
      told = NOTHING
    elseif fixed == 1 then
      told = told .. string.sub(NOTHING, 1, 8)
    end
    if allowed then
      flags = flags + 1
    end
    if not many then
      return pack('<dB', now, flags) .. told
    end
    replies[2 * i], replies[2 * i + 1] = char(flags), told
  end
  for k, which in pairs(changed) do
    fixed, anchored, denied, overlap, quota, window = unpack_('<BBBBdd', limits, 20 * which + 1)
    saveOne(KEYS[k], values[k], was[k], starts[k], fixed, window)
  end
  return table.concat(replies)
end

-- All requests -------------------------------------------------------------------------------------------------------

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
grace = grace >= 0 and grace -- false to keep states for ever

local TAKE, TAKE_UP_TO, PEEK, CHARGE, GIVE_BACK, RESET = 0, 1, 2, 3, 4, 5
local WINDOW, LOG, FIXED, BUCKET = 0, 1, 2, 3
local UP, DOWN, WHOLE = 0, 1, 2

-- mulDivAny is muldiv for any b, where the quotient is below 2^53.
local function mulDivAny(a, b, c)
  local whole = floor(b / c)
  local quotient, rest = muldiv(a, b - whole * c, c)
  return quotient + a * whole, rest
end

-- Windows ------------------------------------------------------------------------------------------------------------

local window = {}

function window.load(it)
  local value = call('GET', it.key)
  it.counts = {}
  if value then
    it.start = unpack_('<d', value)
    for i = 1, it.parts do
      it.counts[i] = unpack_('<d', value, 8 * i + 1)
    end
  end
end

function window.startAt(it, now)
  if it.first then
    return now
  end
  return now - now % it.part
end

-- weigh is how much a count counts of which covered/part lies in the window.
local function weigh(it, count, covered)
  if count == 0 or covered == it.part or it.overlap == WHOLE then
    return count
  end
  local quotient, rest = muldiv(count, covered, it.part)
  if it.overlap == UP and rest > 0 then
    quotient = quotient + 1
  end
  return quotient
end

function window.look(it, now)
  it.at, it.moved, it.shift, it.place = now, false, 0, it.start
  if not it.start then
    it.place, it.shift = window.startAt(it, now), it.parts
  else
    local ahead = it.start - now
    if ahead > it.window then
      it.place, it.moved = window.startAt(it, now), true
    elseif ahead > 0 then
      it.at = it.start
    elseif -ahead >= it.part then
      local passed = floor(-ahead / it.part)
      if passed >= it.parts then
        it.place, it.shift = window.startAt(it, now), it.parts
      else
        it.place, it.shift = it.start + passed * it.part, passed
      end
    end
  end
  local oldest = it.parts - it.shift -- counted from 1
  local used = 0
  if oldest >= 1 then
    if it.algorithm == FIXED then
      used = it.counts[1]
    else
      for i = 1, oldest - 1 do
        used = used + it.counts[i]
      end
      used = used + weigh(it, it.counts[oldest], it.place + it.part - it.at)
    end
  end
  it.room = it.quota - used
end

function window.roll(it)
  local counts = {}
  for i = 1, it.parts do
    counts[i] = i > it.shift and it.counts[i - it.shift] or 0
  end
  it.counts, it.start, it.shift = counts, it.place, 0
end

window.settle = window.roll

function window.charge(it, n)
  window.roll(it)
  it.counts[1] = min(it.counts[1] + n, MOST)
end

window.refuse = window.charge

function window.giveBack(it, n, at)
  if not it.start then
    return 0
  end
  local newest, oldest = 0, it.parts - 1
  if at ~= 0 then
    if at < it.place then
      newest = min(floor((it.place - at - 1) / it.part) + 1, it.parts)
    end
    oldest = min(oldest, newest)
  end
  local given = 0
  local i = oldest
  while i >= max(newest, it.shift) and given < n do
    local place = i - it.shift + 1
    local taken = min(n - given, it.counts[place])
    it.counts[place] = it.counts[place] - taken
    given = given + taken
    i = i - 1
  end
  if given > 0 then
    window.roll(it)
  end
  return given
end

function window.expires(it)
  return it.start + it.parts * it.part
end

function window.value(it)
  local value = { pack('<d', it.start) }
  for i = 1, it.parts do
    value[i + 1] = pack('<d', it.counts[i])
  end
  return table.concat(value)
end

function window.save(it, ttl)
  if ttl then
    call('SET', it.key, window.value(it), 'PX', ttl)
  else
    call('SET', it.key, window.value(it))
  end
end

function window.told(it)
  if not it.start then
    return ''
  end
  return window.value(it)
end

-- Token bucket -------------------------------------------------------------------------------------------------------

-- A debt is whole microseconds and a rest in 1/quota microseconds: a unit costs window/quota microseconds.
local bucket = {}

function bucket.load(it)
  local value = call('GET', it.key)
  if value then
    it.start, it.rest = unpack_('<dd', value)
  else
    it.start, it.rest = nil, 0
  end
end

local function above(a, ar, b, br)
  return a > b or a == b and ar > br
end

-- costOf is what n units cost, as a debt.
local function costOf(it, n)
  return mulDivAny(n, it.window, it.quota)
end

-- unitsOf is how many whole units a debt is, and whether something is left.
local function unitsOf(it, whole, rest)
  local units, left = mulDivAny(whole, it.quota, it.window)
  left = left + rest
  local more = floor(left / it.window)
  return units + more, left - more * it.window > 0
end

local function minus(it, a, ar, b, br)
  if ar < br then
    return a - b - 1, ar + it.quota - br
  end
  return a - b, ar - br
end

function bucket.look(it, now)
  it.at, it.moved, it.now = now, false, now
  it.debt, it.debtRest = 0, 0
  if it.start and it.start >= now then
    it.debt, it.debtRest = it.start - now, min(it.rest, it.quota - 1)
  end
  it.empty, it.emptyRest = costOf(it, it.burst)
  if above(it.debt, it.debtRest, it.empty + 2 * it.window, it.emptyRest) then
    it.debt, it.debtRest, it.moved = it.empty, it.emptyRest, true
  end
  if above(it.debt, it.debtRest, it.empty, it.emptyRest) then
    it.room = -1 -- overdrawn; by how much is for the answer, not for the decision
  else
    local a, ar = minus(it, it.empty, it.emptyRest, it.debt, it.debtRest)
    it.room = unitsOf(it, a, ar)
  end
end

local function setDebt(it, debt, rest)
  it.debt, it.debtRest = debt, rest
  it.start, it.rest = it.now + debt, rest
end

function bucket.charge(it, n)
  local cost, costRest = costOf(it, min(n, it.burst + it.quota)) -- more would not make it deeper
  local debt, rest = it.debt + cost, it.debtRest + costRest
  if rest >= it.quota then
    debt, rest = debt + 1, rest - it.quota
  end
  local deepest = it.empty + it.window
  if above(debt, rest, deepest, it.emptyRest) then
    if above(it.debt, it.debtRest, deepest, it.emptyRest) then
      debt, rest = it.debt, it.debtRest
    else
      debt, rest = deepest, it.emptyRest
    end
  end
  setDebt(it, debt, rest)
end

function bucket.refuse(it)
  if above(it.empty, it.emptyRest, it.debt, it.debtRest) then
    setDebt(it, it.empty, it.emptyRest)
  else
    setDebt(it, it.debt, it.debtRest)
  end
end

function bucket.settle(it)
  setDebt(it, it.debt, it.debtRest)
end

function bucket.giveBack(it, n, at)
  local full = it.empty
  if it.emptyRest > 0 then
    full = full + 1
  end
  if at ~= 0 and it.now - at >= full then
    return 0
  end
  local units, more = unitsOf(it, it.debt, it.debtRest)
  if more then
    units = units + 1
  end
  local given = min(n, units)
  if given == 0 then
    return 0
  end
  local back, backRest = costOf(it, given)
  if above(it.debt, it.debtRest, back, backRest) then
    setDebt(it, minus(it, it.debt, it.debtRest, back, backRest))
  else
    setDebt(it, 0, 0)
  end
  return given
end

function bucket.expires(it)
  if it.rest > 0 then
    return it.start + 1
  end
  return it.start
end

function bucket.save(it, ttl)
  local value = pack('<dd', it.start, it.rest)
  if ttl then
    call('SET', it.key, value, 'PX', ttl)
  else
    call('SET', it.key, value)
  end
end

function bucket.told(it)
  if not it.start then
    return ''
  end
  return pack('<dd', it.start, it.rest)
end

-- Sliding log --------------------------------------------------------------------------------------------------------

-- The value is a header, then a ring of times, 8 bytes each, which grows as it fills and never beyond the quota. The header
-- holds how many slots there are, where the oldest unit lies and how many units there are. A small one is read at once, of a
-- large one only what is needed, and of any only what changes is written.
local log = {}
local HEADER = 24
local SMALL = 256 -- slots

function log.load(it)
  it.slots, it.head, it.count, it.bytes = 0, 0, 0, nil
  local bytes = call('GETRANGE', it.key, '0', tostring(HEADER + 8 * SMALL - 1))
  if bytes ~= '' then
    it.slots, it.head, it.count = unpack_('<ddd', bytes)
    it.bytes = it.slots <= SMALL and bytes
  end
end

-- unit returns the time of the unit that comes i-th from the oldest, counted from 0.
local function unit(it, i)
  local place = HEADER + 8 * ((it.head + i) % it.slots)
  if it.bytes then
    return (unpack_('<d', it.bytes, place + 1))
  end
  return (unpack_('<d', call('GETRANGE', it.key, place, place + 7)))
end

-- after returns how many units are later than a moment.
local function after(it, t)
  local low, high = 0, it.count -- the first later one lies between
  while low < high do
    local middle = floor((low + high) / 2)
    if unit(it, middle) > t then
      high = middle
    else
      low = middle + 1
    end
  end
  return it.count - low
end

function log.look(it, now)
  it.at, it.moved, it.behind, it.live = now, false, 0, 0
  if it.count > 0 then
    local newest = unit(it, it.count - 1)
    it.newest = newest
    if newest > now + it.window then
      it.moved, it.behind = true, newest - now
    elseif newest > now then
      it.at = newest
    end
    it.live = min(after(it, it.at - it.window + it.behind), it.quota)
  end
  it.room = it.quota - it.live
end

-- times returns the times of the live units, the oldest first.
local function times(it)
  if not it.bytes and it.count > 0 then
    it.bytes = call('GET', it.key) -- all of it is needed: one call, and not one for every unit
  end
  local all = {}
  for i = it.count - it.live, it.count - 1 do
    all[#all + 1] = unit(it, i) - it.behind
  end
  it.behind = 0
  return all
end

-- replace makes the log of a list of times, the newest quota of them, with room to grow.
local function replace(it, all)
  local from = max(1, #all - it.quota + 1)
  local ring = {}
  for i = from, #all do
    ring[#ring + 1] = pack('<d', all[i])
  end
  it.count, it.head, it.live = #ring, 0, #ring
  it.slots = min(it.quota, max(4, 2 * it.count))
  it.whole, it.newest = true, all[#all]
  -- All slots are written, for Redis gives a string that grows by a few bytes twice the memory that it needs.
  it.bytes = pack('<ddd', it.slots, 0, it.count) .. table.concat(ring) .. string.rep('\0', 8 * (it.slots - it.count))
end

function log.settle(it)
  replace(it, times(it))
end

-- charge adds units at it.at, over the oldest ones if the quota is full.
function log.charge(it, n)
  n = min(n, it.quota)
  local head = it.slots > 0 and (it.head + it.count - it.live) % it.slots or 0
  local needed = min(it.quota, it.live + n)
  if it.behind > 0 or it.slots > it.quota or needed > it.slots then
    local all = times(it)
    for _ = 1, n do
      all[#all + 1] = it.at
    end
    replace(it, all)
    return
  end
  local first = (head + it.live) % it.slots
  local fit = min(n, it.slots - first) -- the others go to the beginning of the ring
  local time = pack('<d', it.at)
  call('SETRANGE', it.key, HEADER + 8 * first, string.rep(time, fit))
  if n > fit then
    call('SETRANGE', it.key, HEADER, string.rep(time, n - fit))
  end
  local over = max(0, it.live + n - it.slots)
  it.head, it.count = (head + over) % it.slots, it.live + n - over
  it.live, it.bytes, it.newest = it.count, nil, it.at
end

log.refuse = log.charge

function log.giveBack(it, n, at)
  if it.count == 0 then
    return 0
  end
  local found = it.live
  if at ~= 0 then
    at = at + it.behind
    found = min(it.live, after(it, at - 1)) - min(it.live, after(it, at))
    at = at - it.behind
  end
  local given = min(n, found)
  if given == 0 then
    return 0
  end
  local all, left, gone = times(it), {}, 0
  for _, t in ipairs(all) do
    if gone < given and (at == 0 or t == at) then
      gone = gone + 1
    else
      left[#left + 1] = t
    end
  end
  replace(it, left)
  return given
end

function log.expires(it)
  if it.count == 0 then
    return 0
  end
  return it.newest + it.window
end

function log.save(it, ttl)
  if it.count == 0 then
    call('DEL', it.key)
    return
  end
  if it.whole then
    call('SET', it.key, it.bytes)
  else
    call('SETRANGE', it.key, 0, pack('<ddd', it.slots, it.head, it.count))
  end
  if ttl then
    call('PEXPIRE', it.key, ttl)
  end
end

-- told returns how many units count, the newest one's time, and if cost was refused that of the one that must expire before
-- it fits.
function log.told(it)
  if it.live == 0 then
    return pack('<ddd', 0, 0, 0)
  end
  local blocking, excess = 0, it.live + it.cost - it.quota
  if not it.allowed and excess > 0 and excess <= it.live then
    blocking = unit(it, it.count - it.live + excess - 1) - it.behind
  end
  return pack('<ddd', it.live, it.newest - it.behind, blocking)
end

-- Requests -----------------------------------------------------------------------------------------------------------

local algorithms = { [WINDOW] = window, [FIXED] = window, [LOG] = log, [BUCKET] = bucket }

local function read(i)
  local it = { key = KEYS[i] }
  it.op, it.charges, it.algorithm, it.overlap, it.first, it.countDenied, it.parts, it.quota, it.burst, it.window, it.part, it.cost, it.from =
    unpack_('<BBBBBBddddddd', ARGV[i + 1])
  it.first, it.countDenied = it.first == 1, it.countDenied == 1
  it.rule = algorithms[it.algorithm]
  return it
end

local function save(it)
  local ttl
  if grace then
    ttl = max(1, ceil((it.rule.expires(it) - now) / 1000) + grace)
  end
  it.rule.save(it, ttl)
end

local function capacity(it)
  return it.algorithm == BUCKET and it.burst or it.quota
end

local function admits(it)
  return it.cost <= it.room and it.cost <= capacity(it)
end

local function take(items)
  local all = true
  for _, it in ipairs(items) do
    it.allowed = admits(it)
    all = all and it.allowed
  end
  for _, it in ipairs(items) do
    if not it.allowed then
      if it.countDenied and it.cost > 0 and it.cost <= capacity(it) then
        it.rule.refuse(it, it.cost)
        it.changed = true
      elseif it.moved then
        it.rule.settle(it)
        it.changed = true
      end
    elseif all then
      it.granted = it.cost
      if it.cost > 0 then
        it.rule.charge(it, it.cost)
        it.changed = true
      end
    end
  end
end

local function decide(items)
  local op = items[1].op
  for _, it in ipairs(items) do
    it.rule.load(it)
    it.rule.look(it, now)
    it.granted, it.allowed, it.changed = 0, true, false
  end
  if op == TAKE_UP_TO then
    local grant = MOST
    for _, it in ipairs(items) do
      grant = min(grant, it.cost, max(1, it.room))
    end
    for _, it in ipairs(items) do
      it.cost = grant
    end
    take(items)
  elseif op == TAKE then
    take(items)
  elseif op == PEEK then
    for _, it in ipairs(items) do
      it.allowed = admits(it)
    end
  else
    for _, it in ipairs(items) do
      local moved = it.moved
      if op == CHARGE then
        it.granted = it.cost
        if it.cost > 0 then
          it.rule.charge(it, it.cost)
          it.changed = true
        end
      elseif op == GIVE_BACK then
        it.granted = it.rule.giveBack(it, it.cost, it.from)
        it.changed = it.granted > 0
      else
        call('DEL', it.key)
        it.start, moved = nil, false
        it.rule.load(it)
      end
      it.rule.look(it, now)
      it.moved = it.moved or moved
    end
  end
end

local replies = { pack('<d', now) }
local i = 1
while i <= #KEYS do
  local first = read(i)
  local items = { first }
  for j = 1, first.charges - 1 do
    items[j + 1] = read(i + j)
  end
  decide(items)
  for _, it in ipairs(items) do
    if it.changed then
      save(it)
    end
    local told = it.rule.told(it)
    local flags = (it.allowed and 1 or 0) + (it.moved and 2 or 0)
    replies[#replies + 1] = pack('<BHddd', flags, #told, it.granted, it.cost, it.at) .. told
  end
  i = i + first.charges
end
return table.concat(replies)
