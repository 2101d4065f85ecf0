-- Sliding log --------------------------------------------------------------------------------------------------------

-- The value is a header followed by the units in order, each in microseconds since a base time in the header. A new
-- unit is appended. Now and then, when the key's end moves or when there are too many, the value is rewritten without
-- the units that no longer count. The header also has how many of the newest units exist: a charge beyond the quota
-- overwrites the oldest, which stay in the value until it is rewritten. A smaller quota drops none.
local function makeLog()
  local log = {}
  local GRID = 134217728

  -- rebase sets the value's units to a list of times, none of which is more than a window before last, or later.
  local function rebase(it, times, last)
    it.base = last - last % GRID - it.window
    local units = {}
    for i, t in ipairs(times) do
      units[i] = pack(it.format, t - it.base)
    end
    it.bytes, it.count, it.stored = table.concat(units), #times, nil
  end

  -- read reads a value, if there is one.
  function log.read(it, value)
    it.width, it.format, it.top = 4, '<I4', 4294967296
    if it.window > HOUR then
      it.width, it.format, it.top = 6, '<I6', 281474976710656
    end
    it.bytes, it.count, it.stored, it.new, it.base = '', 0, nil, nil, nil
    if value then
      it.base, it.kept = unpack_('<dd', value)
      it.stored = (#value - HEADER) / it.width
      it.count = min(it.stored, it.kept)
      it.bytes = sub(value, -it.width * it.count)
    end
  end

  function log.load(it)
    log.read(it, get(it))
  end

  -- unit returns the time of the i-th unit from the oldest, counted from 0.
  local function unit(it, i)
    return it.base + unpack_(it.format, it.bytes, it.width * i + 1)
  end
  log.unit = unit

  function log.look(it, now)
    lookBack(it, now, unit)
    it.room = it.quota - it.live
  end

  -- cut drops n units from the i-th on.
  local function cut(it, i, n)
    it.bytes = sub(it.bytes, 1, it.width * i) .. sub(it.bytes, it.width * (i + n) + 1)
    it.count = it.count - n
  end

  -- settle drops units that no longer count, and moves times back with the clock.
  function log.settle(it)
    cut(it, 0, it.count - it.live)
    if it.behind > 0 then
      it.base, it.newest = it.base - it.behind, it.newest - it.behind
      it.behind, it.stored = 0, nil
    end
    it.new = nil
  end

  -- charge adds units at it.at. If the log is full, they replace the oldest ones.
  function log.charge(it, n)
    n = min(n, it.most)
    local capacity = max(it.most, it.live)
    local count = min(it.live + n, capacity)
    local append = it.stored and it.behind == 0 and count == min(it.live + n, it.kept) and
      it.stored + n <= capacity + capacity / 4 + 8 and lastOf(it, it.newest + it.window) == lastOf(it, it.at + it.window)
    log.settle(it)
    if it.count == 0 and not append then
      rebase(it, {}, it.at)
    elseif it.at - it.base >= it.top - it.cell then
      local times = {}
      for i = 0, it.count - 1 do
        times[i + 1] = unit(it, i)
      end
      append = false
      rebase(it, times, it.at)
    end
    cut(it, 0, it.live + n - count)
    local new = string.rep(pack(it.format, it.at - it.base), n)
    it.new = append and new
    it.bytes, it.count = it.bytes .. new, count
    it.live, it.newest = count, it.at
  end

  log.refuse = log.charge

  function log.giveBack(it, n, at)
    if it.count == 0 then
      return 0
    end
    local first, found = it.count - it.live, it.live
    if at ~= 0 then
      local later = min(it.live, after(it, at + it.behind, unit))
      found = min(it.live, after(it, at + it.behind - 1, unit)) - later
      first = it.count - later - found
    end
    local given = min(n, found)
    if given > 0 then
      first = first - (it.count - it.live)
      log.settle(it)
      cut(it, first, given)
      it.live = it.count
      it.newest = it.count > 0 and unit(it, it.count - 1)
    end
    return given
  end

  function log.expires(it)
    return it.count > 0 and it.newest + it.window or 0
  end

  function log.value(it)
    if it.count == 0 then
      return ''
    end
    return pack('<ddB', it.base, max(it.most, it.count), VERSION) .. it.bytes
  end

  function log.encode(it)
    return encodeBack(it, unit)
  end

  -- encodeAll returns the units that count, after their base.
  function log.encodeAll(it)
    return pack('<d', it.base or 0) .. sub(it.bytes, it.width * (it.count - it.live) + 1)
  end

  return log
end

-- No algorithm named -------------------------------------------------------------------------------------------------

-- The value is a log of at most MOST_LOGGED units, or parts. Only a charge turns a log into parts, and none drops a unit that
-- counts. Parts in which nothing counts any more are as if there were no value.
local function makeDefault(log, window)
  local default = {}

  -- become decides whether the state is in parts from now on.
  local function become(it, inParts)
    it.inParts, it.as = inParts, inParts and window or log
  end

  function default.load(it)
    local value = get(it)
    become(it, value and it.form ~= VERSION)
    it.as.read(it, value)
  end

  function default.look(it, now)
    it.as.look(it, now)
    it.counting = it.inParts and it.room < it.quota -- in parts, and something counts
    if it.inParts and not it.counting then
      it.at, it.moved, it.live = now, false, 0
    end
  end

  -- toParts turns the log into parts: a unit goes to the part that contains its time.
  local function toParts(it)
    log.settle(it)
    become(it, true)
    it.start, it.counts = window.startAt(it, it.at), {}
    for i = 1, it.parts do
      it.counts[i] = 0
    end
    for i = 0, it.count - 1 do
      local at, place = log.unit(it, i), 1
      if at < it.start then
        place = floor((it.start - at - 1) / it.part) + 2
      end
      it.counts[place] = it.counts[place] + 1
    end
    it.place, it.shift, it.counting = it.start, 0, true
    it.at = max(now, it.start) -- a part's own time is where it starts
  end

  function default.charge(it, n)
    if not it.counting then
      if it.inParts then
        become(it, false)
        log.read(it)
        it.behind = 0
      end
      if it.startsInParts or it.live + n > MOST_LOGGED then
        toParts(it)
      end
    end
    it.as.charge(it, n)
  end

  default.refuse = default.charge

  -- giveBack returns only what would still count in a log: other units were not moved when the log became parts, so that
  -- others would be returned in their place.
  function default.giveBack(it, n, at)
    if it.inParts and (not it.counting or at ~= 0 and at <= it.at - it.window) then
      return 0
    end
    return it.as.giveBack(it, n, at)
  end

  function default.settle(it)
    it.as.settle(it)
  end

  function default.expires(it)
    return it.as.expires(it)
  end

  function default.value(it)
    return it.as.value(it)
  end

  function default.encode(it)
    return it.as.encode(it)
  end

  function default.encodeAll(it)
    return (it.inParts and window.encode or log.encodeAll)(it)
  end

  return default
end

-- In-flight ----------------------------------------------------------------------------------------------------------

-- The value has 16 bytes per held slot: its ID, and when it was taken or last renewed, least recently renewed first.
local function makeInFlight()
  local inFlight = {}
  local SLOT = 16

  function inFlight.load(it)
    it.bytes = sub(get(it) or '', 1, -2) -- without the version
    it.count = #it.bytes / SLOT
  end

  -- renewed returns when the i-th slot was renewed, counted from 0.
  local function renewed(it, i)
    return (unpack_('<d', it.bytes, SLOT * i + 9))
  end

  function inFlight.look(it, now)
    lookBack(it, now, renewed)
    it.room = it.quota - it.live
  end

  -- keep sets the slots to some of the bytes.
  local function keep(it, bytes)
    it.bytes, it.count = bytes, #bytes / SLOT
  end

  -- cut removes n slots, from the i-th on.
  local function cut(it, i, n)
    keep(it, sub(it.bytes, 1, SLOT * i) .. sub(it.bytes, SLOT * (i + n) + 1))
  end

  -- find returns the index of the slot with the charge's ID, or nothing. An ID of zeros matches none.
  local function find(it)
    if it.id == '\0\0\0\0\0\0\0\0' then
      return nil
    end
    local at = string.find(it.bytes, it.id, 1, true)
    while at and (at - 1) % SLOT ~= 0 do
      at = string.find(it.bytes, it.id, at + 1, true)
    end
    return at and (at - 1) / SLOT
  end

  -- held is find for a slot that has not expired.
  function inFlight.held(it)
    local i = find(it)
    return i and i >= it.count - it.live and i
  end

  -- settle drops slots that were not renewed in time, and moves times back with the clock.
  function inFlight.settle(it)
    cut(it, 0, it.count - it.live)
    if it.behind > 0 then
      local moved = {}
      for i = 0, it.count - 1 do
        moved[i + 1] = sub(it.bytes, SLOT * i + 1, SLOT * i + 8) .. pack('<d', renewed(it, i) - it.behind)
      end
      keep(it, table.concat(moved))
      it.newest, it.behind = it.newest - it.behind, 0
    end
  end

  -- charge takes a slot, or renews it. If it is taken beyond the quota, the least recently renewed one is dropped.
  function inFlight.charge(it)
    inFlight.settle(it)
    local i = find(it)
    if i then
      cut(it, i, 1)
    end
    local capacity = max(it.quota, it.live)
    if it.count >= capacity then
      cut(it, 0, it.count - capacity + 1)
    end
    keep(it, it.bytes .. it.id .. pack('<d', it.at))
    it.live, it.newest = it.count, it.at
  end

  function inFlight.giveBack(it, n, at)
    local i = 0
    if at == 0 then
      n = min(n, it.live)
    else
      i = inFlight.held(it)
      n = i and 1 or 0
    end
    if n > 0 then
      i = i - (at == 0 and 0 or it.count - it.live)
      inFlight.settle(it)
      cut(it, i, n)
    end
    return n
  end

  function inFlight.expires(it)
    return it.newest + it.window
  end

  function inFlight.value(it)
    return it.count > 0 and it.bytes .. MARK or ''
  end

  function inFlight.encode(it)
    return encodeBack(it, renewed)
  end

  function inFlight.encodeAll(it)
    return it.bytes
  end

  return inFlight
end
