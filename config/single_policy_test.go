package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
)

// SinglePolicy returns the same as reading an equivalent file.
func TestPlain(t *testing.T) {
	want, err := Parse("f", []byte("store: redis://localhost:6379\nfailure: closed\npolicies:\n  default:\n    limits: [5/1m, 10/1h]\n"))
	if err != nil {
		t.Fatal(err)
	}
	limits := []slidegate.Limit{slidegate.MustParseLimit("5/1m"), slidegate.MustParseLimit("10/1h")}
	got, err := SinglePolicy("default", limits, Service{Store: "redis://localhost:6379", Failure: store.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	if string(Format(got)) != string(Format(want)) || !reflect.DeepEqual(got.Policies[0].Limits, want.Policies[0].Limits) {
		t.Errorf("got\n%swant\n%s", Format(got), Format(want))
	}
}

func TestPlainRejects(t *testing.T) {
	good := []slidegate.Limit{slidegate.PerMinute(5)}
	for _, test := range []struct {
		limits  []slidegate.Limit
		service Service
		want    string
	}{
		{nil, Service{}, "no limits"},
		{[]slidegate.Limit{{Quota: 0, Window: 60_000_000_000}}, Service{}, "quota"},
		{good, Service{Store: "reddis://localhost"}, `"redis"`},
		{good, Service{Failure: store.Modes}, "failure: unknown mode 5"},
	} {
		if _, err := SinglePolicy("default", test.limits, test.service); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %s", test, err, test.want)
		}
	}
}
