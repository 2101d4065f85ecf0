package reporttest

import (
	"slices"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

// HostileKeys returns keys that an attacker who knows where they are displayed might send.
func HostileKeys() []string { return slices.Clone(hostileKeys) }

var hostileKeys = []string{
	`</script><script>window.pwned = 1</script>`,
	`"><img src=x onerror="window.pwned = 2">`,
	`' onmouseover='window.pwned = 3`,
	"<!--<script>",
	"{{.Command}}${7*7}`",
	"user-\u202egnp.exe",
	"nul\x00 bell\x07 esc\x1b[31m \xff\xfe",
	"line\u2028separator\nnewline",
	strings.Repeat("A", 10_000) + "end",
	"",
}

// HostileRendered holds the hostile keys as a report shows them: harmless to browsers and terminals, and no wider than a
// column.
var HostileRendered = []string{
	"</script><script>win….pwned = 1</script>",
	"\"><img src=x onerror=\"window.pwned = 2\">",
	"' onmouseover='window.pwned = 3",
	"<!--<script>",
	"{{.Command}}${7*7}`",
	"user-\\u202egnp.exe",
	"nul\\x00 bell\\a esc\\x1b[31m \\xff\\xfe",
	"line\\u2028separator\\nnewline",
	"AAAAAAAAAAAAAAAAAAAA…AAAAAAAAAAAAAAAAend",
	"\"\"",
}

// Hostile returns a sample in which every text is one of the hostile keys.
func Hostile() Document {
	d := Sample()
	f := d.Findings
	f.Outcome.TopRefused = nil
	for i, key := range hostileKeys {
		f.Outcome.TopRefused = append(f.Outcome.TopRefused, replay.KeyOutcome{Key: key, Requests: 20, Refused: int64(10 - i)})
	}
	f.Refused = hostileProfile()
	f.Outcome.TopRefused[0].Profile = hostileProfile()
	f.Outcome.Lockout.Key = hostileKeys[0]
	f.Outcome.Limits = append([]replay.LimitOutcome(nil), f.Outcome.Limits...)
	f.Outcome.Limits[0].Highest.Key = hostileKeys[1]
	f.NotCompared = []replay.Omission{{Name: hostileKeys[0], Why: hostileKeys[1]}}
	d.Title, d.Command = hostileKeys[0], hostileKeys[1]+hostileKeys[5]
	f.Against = hostileAgainst()
	d.After, d.Before = hostileKeys[6], hostileKeys[8]
	d.Suggested = hostileKeys[0] + hostileKeys[1]
	d.Sources[0].Name, d.Sources[0].Cut = hostileKeys[2], hostileKeys[3]
	d.Sources[0].Examples[0].Text, d.Sources[0].Examples[0].Why = hostileKeys[0], hostileKeys[1]
	return d
}

// hostileAgainst is a comparison in which every text is one of the hostile keys.
func hostileAgainst() *replay.Comparison {
	a := &replay.Comparison{NewlyRefused: replay.Change{Requests: 100, Keys: 10, Profile: hostileProfile()}}
	for _, key := range hostileKeys {
		a.Policies = append(a.Policies, replay.PolicyOutcome{Name: key, Requests: 1_000_000, Refused: 100_000})
		a.NewlyRefused.Top = append(a.NewlyRefused.Top, replay.KeyChange{Policy: key, Key: key, Requests: 10, Profile: hostileProfile()})
	}
	a.NewlyAdmitted = a.NewlyRefused
	return a
}

// hostileProfile returns a profile in which the values are the hostile keys.
func hostileProfile() *replay.Profile {
	var values []replay.Value
	for i, key := range hostileKeys {
		values = append(values, replay.Value{Value: key, Requests: int64(20 - i)})
	}
	return &replay.Profile{Requests: 100, Methods: values, Paths: values, Agents: values, Statuses: values}
}
