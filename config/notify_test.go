package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

func TestNotify(t *testing.T) {
	const text = `policies:
  api:
    plan: user
    limits: ["100/1m notify=80%,100%", {quota: 1000, window: 1h, name: hourly, notify: [50%]}, 7/1s]
    overrides: [{key: ann, limits: [{quota: 500, window: 1m, notify: [90%]}]}]
    plans: {pro: {limits: [2000/1m notify=5%]}}
  other: {limits: [100/1m]}
`
	file, err := parseOffline("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := &file.Policies[0]
	want := []policy.Threshold{
		{Limit: p.Limits[0], Percent: 80}, {Limit: p.Limits[0], Percent: 100}, {Limit: p.Limits[1], Percent: 50},
		{Limit: p.Overrides[0].Limits[0], Percent: 90}, {Limit: p.Plans[0].Limits[0], Percent: 5},
	}
	if !reflect.DeepEqual(p.Notify, want) || len(file.Policies[1].Notify) > 0 {
		t.Errorf("got %+v and %+v, want %+v and none", p.Notify, file.Policies[1].Notify, want)
	}
	again, err := parseOffline("f.yaml", Format(file))
	if err != nil || !reflect.DeepEqual(again.Policies[0].Notify, want) {
		t.Errorf("after Format: got %+v, %v from\n%s", again, err, Format(file))
	}
	if _, err := HTTP(file); err == nil || !strings.Contains(err.Error(), "notify: ") {
		t.Errorf("HTTP: got %v, want an error about notify", err)
	}
}

// A notify that is not valid, or that could not work, is an error that names the field and the line.
func TestInvalidNotify(t *testing.T) {
	for _, c := range []struct{ limit, more, want string }{
		{"{quota: 1, window: 1m, notify: 80%}", "", `3:45: notify: must be a list of percentages, such as [80%, 100%], not "80%"`},
		{"{quota: 1, window: 1m, notify: []}", "", "3:45: notify: must have 1 to 8 percentages, such as [80%, 100%], not 0"},
		{"{quota: 1, window: 1m, notify: [80]}", "", `notify: must be 1% to 100%, in whole percent, not "80"`},
		{"{quota: 1, window: 1m, notify: [101%]}", "", `notify: must be 1% to 100%, in whole percent, not "101%"`},
		{"{quota: 1, window: 1m, notify: [0%]}", "", `notify: must be 1% to 100%`},
		{"{quota: 1, window: 1m, notify: [1.5%]}", "", `notify: must be 1% to 100%`},
		{"{quota: 1, window: 1m, notify: [80%, 80%]}", "", "notify: duplicate 80%; leave one of them out"},
		{"{quota: 1, window: 1m, notify: [{}]}", "", "notify: must be a percentage, such as 80%"},
		{"1/1m notify=x", "", `notify: must be 1% to 100%, in whole percent, not "x"`},
		{"1/1m notify=", "", `notify: must be 1% to 100%`},
		{"5 in-flight ttl=30s notify=80%", "", "notify: cannot be used with in-flight"},
		{"100/1m lease notify=80%", "", "notify: cannot be combined with lease"},
		{"100/1m count-refused notify=80%", "", "notify: cannot be combined with count_refused"},
		{"100/1m notify=80%", "\n    lease: true", "lease: applies to all limits of the policy, and some have notify"},
	} {
		text := fmt.Sprintf("policies:\n  api:\n    limits: [%s]%s\n", c.limit, c.more)
		if !strings.HasPrefix(c.limit, "{") {
			text = fmt.Sprintf("policies:\n  api:\n    limits: [\"%s\"]%s\n", c.limit, c.more)
		}
		if _, err := parseOffline("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", text, err, c.want)
		}
	}
}

// A limit that a program adds has thresholds as one in a file does.
func TestAddLimit(t *testing.T) {
	p := &Policy{}
	for _, text := range []string{"10/1m", "10/1m notify=80%,100%", "10/1m notify=100%,50%"} {
		if err := p.AddLimit(text); err != nil {
			t.Fatal(err)
		}
	}
	limit := slidegate.MustParseLimit("10/1m")
	if want := []policy.Threshold{{Limit: limit, Percent: 80}, {Limit: limit, Percent: 100}, {Limit: limit, Percent: 50}}; len(p.Limits) != 3 || !slices.Equal(p.Notify, want) {
		t.Errorf("got %v and %v, want three limits and %v", p.Limits, p.Notify, want)
	}
	for text, want := range map[string]string{
		"10/1m notify=101%":             "notify: must be 1% to 100%",
		"10/1 notify=80%":               "window",
		"9 in-flight ttl=1m notify=80%": "notify: cannot be used with in-flight",
		"10/1m lease notify=80%":        "notify: cannot be combined with lease",
		"10/1m notify=80% hold=1":       "unknown option",
	} {
		var wrong *slidegate.LimitError
		if err := p.AddLimit(text); !errors.As(err, &wrong) || !errors.Is(err, slidegate.ErrLimit) || !strings.Contains(err.Error(), want) || len(p.Limits) != 3 {
			t.Errorf("%s: got %v, want an error about %s", text, err, want)
		}
	}
}
