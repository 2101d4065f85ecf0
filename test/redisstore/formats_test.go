package redisstore_test

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/formats"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// What a newer version has written is an error, and left as it is. TestRejectsOtherVersions has other numbers, and batches.
func TestRejectsNewerFormats(t *testing.T) {
	t.Parallel()
	formats.CheckNewer(t, keys{redistest.Server(t, "appendonly no").Client(t)}, func(line string) string {
		words := strings.Split(line, " ")
		value, last := []byte(kit.Must(hex.DecodeString(words[len(words)-1]))(t)), len(words)-1
		switch {
		case words[0] == "string" && (withHeader.MatchString(words[1]) || len(value) >= held && !strings.Contains(words[1], ":in-flight-")):
			value[versionInHeader] = formats.Newer
		case len(value)%8 == 0:
			value = append(value, formats.Newer)
		default:
			value[len(value)-1] = formats.Newer
		}
		words[last] = hex.EncodeToString(value)
		return strings.Join(words, " ")
	})
}

// held is the length of the shortest value of which units are held: its version is in a header too, whatever follows.
const held = 17 + 32

// withHeader matches the keys of values that have their version in a header.
var withHeader = regexp.MustCompile(`:(sliding-log-|default-|sliding-window-\d+-[2-9])`)

// keys is a server as lines: of a string its key and its value, of a hash each of its fields. Bytes are hexadecimal.
type keys struct{ client rueidis.Client }

func (k keys) Clear(t testing.TB) { do(t, k.client, "FLUSHALL") }

func (k keys) Open(t testing.TB, now func() rule.Micros) store.Store {
	return newStore(t, k.client, redisstore.Options{Now: now})
}

func (k keys) Dump(t testing.TB) (lines []string) {
	for _, key := range kit.Must(do(t, k.client, "KEYS", "*").AsStrSlice())(t) {
		if text(t, k.client, "TYPE", key) == "string" {
			lines = append(lines, fmt.Sprintf("string %s %x", key, text(t, k.client, "GET", key)))
			continue
		}
		for field, value := range kit.Must(do(t, k.client, "HGETALL", key).AsStrMap())(t) {
			lines = append(lines, fmt.Sprintf("hash %s %s %x", key, strconv.Quote(field), value))
		}
	}
	slices.Sort(lines)
	return lines
}

func (k keys) Load(t testing.TB, lines []string) {
	bytes := func(text string) string { return string(kit.Must(hex.DecodeString(text))(t)) }
	for _, line := range lines {
		switch words := strings.Split(line, " "); words[0] {
		case "string":
			do(t, k.client, "SET", words[1], bytes(words[2]))
		case "hash":
			do(t, k.client, "HSET", words[1], kit.Must(strconv.Unquote(words[2]))(t), bytes(words[3]))
		default:
			t.Fatalf("invalid line %s", line)
		}
	}
}
