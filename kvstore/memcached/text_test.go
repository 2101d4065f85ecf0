package memcached

import (
	"math"
	"testing"
	"time"
)

func TestExpiration(t *testing.T) {
	const now, day = 1_800_000_000, 24 * time.Hour
	for _, test := range []struct {
		keep time.Duration
		want int32
	}{
		{0, 3},
		{1, 3},
		{time.Second, 3},
		{time.Second + 1, 4},
		{time.Hour, 3602},
		{30*day - 2*time.Second, 30 * 86_400},
		{30*day - 2*time.Second + 1, now + 30*86_400 + 1}, // as a relative time it would be taken for a date in 1970
		{30 * day, now + 30*86_400 + 2},
		{366 * day, now + 366*86_400 + 2},
		{latest*time.Second - (now+maxBehind)*time.Second, latest},
		{latest*time.Second - (now+maxBehind)*time.Second + 1, 0}, // kept forever
		{math.MaxInt64, 0},
	} {
		if got := expiration(now, test.keep); got != test.want {
			t.Errorf("expiration for %v is %d, want %d", test.keep, got, test.want)
		}
	}
}

func TestParseLogLine(t *testing.T) {
	for _, test := range []struct {
		line   string
		micros int64 // 0 if the line cannot be parsed
		name   string
	}{
		{"ts=1794849424.777975 gid=2 type=item_get key=a-B1 status=not_found clsid=0 cfd=24 size=0", 1794849424_777975, "a-B1"},
		{"ts=1794849424.5 gid=2 type=item_get key=a status=found", 1794849424_000005, "a"},
		{"ts=1794849424.77975 gid=2 type=item_get key=a", 1794849424_077975, "a"},
		{"ts=1794849424.777975 gid=2 type=conn_new rip=127.0.0.1 rport=55332 transport=tcp cfd=24", 0, ""},
		{"skipped=12", 0, ""},
		{"ts=17948494x4.1 key=a", 0, ""},
		{"ts=1794849424 key=a", 0, ""},
		{"key=a", 0, ""},
		{"", 0, ""},
	} {
		at, name, ok := parseLogLine(test.line)
		if ok != (test.micros != 0) || ok && (at.UnixMicro() != test.micros || name != test.name) {
			t.Errorf("%q: got %d, %q, %v, want %d, %q", test.line, at.UnixMicro(), name, ok, test.micros, test.name)
		}
	}
}
