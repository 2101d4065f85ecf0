package envoy

import (
	"strings"
	"testing"

	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func configOf(t *testing.T, text string) *rlsconfig.RateLimitConfig {
	t.Helper()
	c := &rlsconfig.RateLimitConfig{}
	if err := protojson.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFromConfig: the configuration of a management server has the same meaning as in a file.
func TestFromConfig(t *testing.T) {
	got, err := FromConfig(configOf(t, `{"name":"n","domain":"d","descriptors":[
		{"key":"k","value":"a*","rate_limit":{"unit":"MINUTE","requests_per_unit":5,"name":"five","replaces":[{"name":"other"}]},"shadow_mode":true,
		 "descriptors":[{"key":"l","rate_limit":{"unlimited":true}}]},
		{"key":"zero","rate_limit":{"unit":7}},
		{"key":"none","detailed_metric":true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := mustParse(t, `
domain: d
descriptors:
- key: k
  value: a*
  shadow_mode: true
  rate_limit: {unit: minute, requests_per_unit: 5, name: five, replaces: [{name: other}]}
  descriptors: [{key: l, rate_limit: {unlimited: true}}]
- {key: zero, rate_limit: {unit: week, requests_per_unit: 0}}
- {key: none}
`)
	want.root.exact[pair{"zero", ""}].rule.replaces = nil
	// In a file, an unlimited rule has an algorithm, which counts nothing.
	want.root.wild["k"][0].next.exact[pair{"l", ""}].rule.limit = got.root.wild["k"][0].next.exact[pair{"l", ""}].rule.limit
	if !Equal([]*Domain{got}, []*Domain{want}) {
		t.Errorf("got %+v, want %+v", got.root, want.root)
	}
}

// TestStarInKey: Envoy Gateway names a route of all hosts with a *, in the key and in the value.
func TestStarInKey(t *testing.T) {
	d, err := FromConfig(configOf(t, `{"domain":"d","descriptors":[{"key":"route/*","value":"route/*","rate_limit":{"unit":"DAY"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if d.root.find("route/*", "route/*") == nil || d.root.find("route/a", "route/*") != nil {
		t.Error("the key route/* does not stand for itself alone")
	}
}

func TestFromConfigErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"name":"n","domain":""}`, `resource "n": domain: must not be empty`},
		{`{"domain":"d","descriptors":[{}]}`, `descriptors[0].key: must not be empty`},
		{`{"domain":"d","descriptors":[{"key":"a"},{"key":"a"}]}`, `descriptors[1]: duplicate key and value`},
		{`{"domain":"d","descriptors":[{"key":"a","descriptors":[{"key":"b","rate_limit":{"requests_per_unit":1}}]}]}`,
			`descriptors[0].descriptors[0].rate_limit.unit: must be one of SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR`},
		{`{"domain":"d","descriptors":[{"key":"a","rate_limit":{"unit":"DAY","unlimited":true}}]}`, `rate_limit.unit: has no effect when unlimited`},
		{`{"domain":"d","descriptors":[{"key":"a","rate_limit":{"unit":"DAY","replaces":[{}]}}]}`, `rate_limit.replaces[0].name: must not be empty`},
		{`{"domain":"d","descriptors":[{"key":"a","rate_limit":{"unit":"DAY","name":"x","replaces":[{"name":"x"}]}}]}`, `is this rate_limit's own name`},
	} {
		if _, err := FromConfig(configOf(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}

// TestNewerFields: fields 7 and 8 of a descriptor, which servers send, are read whether or not the Go type has them.
func TestNewerFields(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"tier": "gold"})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := proto.Marshal(metadata)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := proto.Marshal(&rlsconfig.RateLimitDescriptor{Key: "k", RateLimit: &rlsconfig.RateLimitPolicy{Unit: rlsconfig.RateLimitUnit_DAY}})
	if err != nil {
		t.Fatal(err)
	}
	sent = protowire.AppendVarint(protowire.AppendTag(sent, 7, protowire.VarintType), 1)
	sent = protowire.AppendBytes(protowire.AppendTag(sent, 8, protowire.BytesType), inner)
	sent = protowire.AppendBytes(protowire.AppendTag(sent, 99, protowire.BytesType), []byte("of a later version"))
	descriptor := &rlsconfig.RateLimitDescriptor{}
	if err := proto.Unmarshal(sent, descriptor); err != nil {
		t.Fatal(err)
	}
	d, err := FromConfig(&rlsconfig.RateLimitConfig{Domain: "d", Descriptors: []*rlsconfig.RateLimitDescriptor{descriptor}})
	if err != nil {
		t.Fatal(err)
	}
	got := d.root.exact[pair{"k", ""}].rule
	if !got.quotaMode || !proto.Equal(got.metadata, metadata) {
		t.Errorf("got quota_mode %v, metadata %v", got.quotaMode, got.metadata)
	}
}
