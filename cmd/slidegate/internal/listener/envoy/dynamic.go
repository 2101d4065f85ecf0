package envoy

import (
	"fmt"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// dynamicMetadata returns the request and the metadata of the rules under their limits, in the fields of the original.
func dynamicMetadata(w *work, request *rls.RateLimitRequest, response *rls.RateLimitResponse) *structpb.Struct {
	descriptors, merged := &structpb.ListValue{}, map[string]*structpb.Value{}
	for i, descriptor := range request.GetDescriptors() {
		entries := &structpb.ListValue{}
		for _, entry := range descriptor.GetEntries() {
			entries.Values = append(entries.Values, structpb.NewStringValue(entry.GetKey()+"="+entry.GetValue()))
		}
		fields := map[string]*structpb.Value{"entries": structpb.NewListValue(entries)}
		if own := descriptor.GetHitsAddend(); own != nil {
			fields["hitsAddend"] = structpb.NewNumberValue(float64(own.GetValue()))
		}
		if limit := descriptor.GetLimit(); limit != nil {
			fields["limit"] = structpb.NewStringValue(limitText(limit))
		}
		descriptors.Values = append(descriptors.Values, structpb.NewStructValue(&structpb.Struct{Fields: fields}))
		if a := &w.items[i]; a.kind == counted && response.Statuses[i].GetCode() == codeOK {
			merge(merged, a.rule.metadata.GetFields())
		}
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(request.GetDomain()),
		"descriptors": structpb.NewListValue(descriptors),
	}
	if n := request.GetHitsAddend(); n != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	if len(merged) > 0 {
		fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: merged})
	}
	return &structpb.Struct{Fields: fields}
}

// limitText writes a limit that came with a descriptor as the original does, but always with one blank between its
// parts.
func limitText(limit *common.RateLimitDescriptor_RateLimitOverride) string {
	text := fmt.Sprintf("requests_per_unit:%d unit:%v", limit.GetRequestsPerUnit(), limit.GetUnit())
	if multiplier := limit.GetUnitMultiplier(); multiplier != nil {
		text += fmt.Sprintf(" unit_multiplier:{value:%d}", multiplier.GetValue())
	}
	return text
}

// merge adds the missing fields, recursively for mappings that both have. It does not modify what it adds, which
// belongs to the rules.
func merge(into, from map[string]*structpb.Value) {
	for name, value := range from {
		existing, ok := into[name]
		switch {
		case !ok:
			into[name] = proto.CloneOf(value)
		case existing.GetStructValue() != nil:
			merge(existing.GetStructValue().GetFields(), value.GetStructValue().GetFields())
		}
	}
}
