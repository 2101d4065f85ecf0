package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// redisRulings keeps rulings, by policy and key, and their version in a hash, and the log in a list. The names share a hash tag, so
// that a cluster has both on one node. No limit has such a name: names of limits have the shape of the limit before the brace.
type redisRulings struct {
	client rueidis.Client
	table  string
	log    string
}

func newRedisRulings(client rueidis.Client, prefix string) *redisRulings {
	table := prefix + ":{rulings}"
	return &redisRulings{client: client, table: table, log: table + ":log"}
}

// versionField is the field of the hash with the version. The fields of rulings are JSON arrays.
const versionField = "version"

func (k *redisRulings) Load(ctx context.Context, known int64) ([]rulings.Ruling, int64, error) {
	version, err := k.client.Do(ctx, k.client.B().Hget().Key(k.table).Field(versionField).Build()).AsInt64()
	switch {
	case rueidis.IsRedisNil(err):
		return nil, 0, nil
	case err != nil:
		return nil, 0, failed("redis", withoutArguments(err))
	case version == known:
		return nil, known, nil
	}
	fields, err := k.client.Do(ctx, k.client.B().Hgetall().Key(k.table).Build()).AsStrMap()
	if err != nil {
		return nil, 0, failed("redis", withoutArguments(err))
	}
	if version, err = strconv.ParseInt(fields[versionField], 10, 64); err != nil {
		return nil, 0, failed("redis", fmt.Errorf("invalid version of the rulings: %w", err))
	}
	delete(fields, versionField)
	all := make([]rulings.Ruling, 0, len(fields))
	for _, text := range fields {
		if all, err = appendRuling(all, text); err != nil {
			return nil, 0, failed("redis", err)
		}
	}
	return all, version, nil
}

// appendRuling appends a ruling that is stored as text.
func appendRuling(all []rulings.Ruling, text string) ([]rulings.Ruling, error) {
	var r rulings.Ruling
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("invalid stored ruling: %w", err)
	}
	return append(all, r), nil
}

// changeRulings makes a change. ARGV has the name of the ruling (its policy and key), the ruling (empty to end one), the line of the
// log, the maximum numbers of rulings and lines, and then stale rulings, each as its name and its text.
var changeRulings = rueidis.NewLuaScript(`
local there = redis.call('HEXISTS', KEYS[1], ARGV[1])
if ARGV[2] == '' and there == 0 then return 'none' end
local stale = {}
for i = 6, #ARGV, 2 do
  if ARGV[i] ~= ARGV[1] and redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then stale[#stale + 1] = ARGV[i] end
end
local others = redis.call('HLEN', KEYS[1]) - redis.call('HEXISTS', KEYS[1], 'version') - there - #stale
if ARGV[2] ~= '' and others >= tonumber(ARGV[4]) then return 'full' end
for i = 1, #stale do redis.call('HDEL', KEYS[1], stale[i]) end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('LPUSH', KEYS[2], ARGV[3])
redis.call('LTRIM', KEYS[2], 0, tonumber(ARGV[5]) - 1)
return 'ok'
`)

func (k *redisRulings) Apply(ctx context.Context, change rulings.Ruling, stale []rulings.Ruling) error {
	text := string(change.Text())
	ruling := text
	if change.Kind == rulings.Clear {
		ruling = ""
	}
	args := []string{change.Name(), ruling, text, strconv.Itoa(rulings.MaxRulings), strconv.Itoa(rulings.MaxLog)}
	for i := range stale {
		args = append(args, stale[i].Name(), string(stale[i].Text()))
	}
	reply, err := changeRulings.Exec(ctx, k.client, []string{k.table, k.log}, args).ToString()
	switch {
	case err != nil:
		return failed("redis", withoutArguments(err))
	case reply == "ok":
		return nil
	}
	return changeError(reply)
}

// changeError returns the error for a change that a store did not make.
func changeError(reply string) error {
	switch reply {
	case "none":
		return fmt.Errorf("stores: %w", rulings.ErrNone)
	case "full":
		return fmt.Errorf("stores: %w", rulings.ErrFull)
	}
	return errors.New("stores: unexpected reply of the store to a change of rulings")
}

func (k *redisRulings) Log(ctx context.Context, n int) (all []rulings.Ruling, err error) {
	lines, err := k.client.Do(ctx, k.client.B().Lrange().Key(k.log).Start(0).Stop(int64(n)-1).Build()).AsStrSlice()
	if err != nil {
		return nil, failed("redis", withoutArguments(err))
	}
	for _, line := range lines {
		if all, err = appendRuling(all, line); err != nil {
			return nil, failed("redis", err)
		}
	}
	return all, nil
}
