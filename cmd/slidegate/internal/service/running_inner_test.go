package service

import (
	"reflect"
	"testing"

	"github.com/slidegate/slidegate/config"
)

func TestChanges(t *testing.T) {
	const before = "failure: open\npolicies:\n  a: {limits: [5/1h]}\n  b: {limits: [5/1h]}\n  same: {limits: [1/1s]}\n"
	for text, want := range map[string]Changes{
		before: {},
		"failure: closed\npolicies:\n  a: {limits: [5/1h]}\n  b: {limits: [5/1h]}\n  same: {limits: [1/1s]}\n": {Service: true},
		"failure: open\npolicies:\n  a: {limits: [6/1h]}\n  same: {limits: [1/1s]}\n  c: {limits: [5/1h]}\n": {
			Added: []string{"c"}, Removed: []string{"b"}, Changed: []string{"a"},
		},
	} {
		old, err := config.Parse("old.yaml", []byte(before))
		if err != nil {
			t.Fatal(err)
		}
		now, err := config.Parse("new.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var got Changes
		got.compare(old, now)
		if !reflect.DeepEqual(got, want) || got.any() != !reflect.DeepEqual(want, Changes{}) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}
