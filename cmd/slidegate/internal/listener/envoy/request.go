package envoy

import (
	"errors"
	"fmt"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// The bounds of a request. Envoy builds descriptors from a route's configuration, so a request beyond them is a
// mistake.
const (
	MaxDescriptors = 64      // maximum number of descriptors in a request
	MaxEntries     = 32      // maximum number of entries in a descriptor
	MaxBytes       = 1 << 16 // maximum size of all keys and values of a descriptor
)

// check validates a request without looking at the rules.
func check(request *rls.RateLimitRequest) error {
	switch n := len(request.GetDescriptors()); {
	case request.GetDomain() == "":
		return errors.New("envoy: domain: must not be empty")
	case n == 0:
		return errors.New("envoy: descriptors: must not be empty")
	case n > MaxDescriptors:
		return fmt.Errorf("envoy: descriptors: must be at most %[2]d, not %[1]d", n, MaxDescriptors)
	}
	for i, descriptor := range request.GetDescriptors() {
		if n := len(descriptor.GetEntries()); n > MaxEntries {
			return fmt.Errorf("envoy: descriptors[%d].entries: must be at most %[3]d, not %[2]d", i, n, MaxEntries)
		}
		bytes := 0
		for _, entry := range descriptor.GetEntries() {
			bytes += len(entry.GetKey()) + len(entry.GetValue())
		}
		if bytes > MaxBytes {
			return fmt.Errorf("envoy: descriptors[%d].entries: must have at most %[3]d bytes, got %[2]d", i, bytes, MaxBytes)
		}
	}
	return nil
}

// hitsOf returns how many hits a descriptor adds. Its own number takes precedence over the request's, and may be 0; a 0
// in the request means the default, 1.
func hitsOf(request *rls.RateLimitRequest, descriptor *common.RateLimitDescriptor) int64 {
	if own := descriptor.GetHitsAddend(); own != nil {
		return int64(min(own.GetValue(), rule.MaxQuota)) // counts saturate there anyway
	}
	return max(1, int64(request.GetHitsAddend()))
}

// overrideOf returns the limit that comes with a descriptor.
func overrideOf(limit *common.RateLimitDescriptor_RateLimitOverride) (override, error) {
	o := override{quota: limit.GetRequestsPerUnit(), multiplier: 1}
	unit := limit.GetUnit()
	if unit != typev3.RateLimitUnit_UNKNOWN { // both enumerations have the same numbers
		o.unit = rls.RateLimitResponse_RateLimit_Unit(unit)
	}
	if lengthOf(o.unit) == 0 {
		return o, fmt.Errorf("unit: %v is not a unit of time", unit)
	}
	if given := limit.GetUnitMultiplier(); given != nil {
		if o.multiplier = given.GetValue(); o.multiplier == 0 {
			return o, errors.New("unit_multiplier: must be at least 1")
		}
	}
	return o, nil
}

// interpretation is how to interpret the store's answer.
type interpretation uint8

const (
	asAnswered interpretation = iota // over if refused
	alwaysOver                       // the hits alone exceed the limit
	neverOver                        // a refund
)

// storeRequest is the request to the store about a descriptor.
type storeRequest struct {
	op             rule.Op
	cost           int64
	interpretation interpretation
}

// requestFor returns the request about a descriptor whose answer matches the original's counter, which adds the hits and is
// over if the sum exceeds the limit.
func (b *bound) requestFor(hits int64, refund bool) storeRequest {
	limit := b.limit.Rule()
	switch {
	case refund && hits > 0:
		return storeRequest{rule.GiveBack, hits, neverOver}
	case refund:
		return storeRequest{rule.Peek, 0, neverOver}
	case b.spec.limit.Quota == 0 && hits == 0: // over as soon as anything was counted
		return storeRequest{rule.Peek, 1, asAnswered}
	case b.spec.limit.Quota == 0 && !limit.CountRefused:
		return storeRequest{rule.Peek, 1, alwaysOver}
	case b.spec.limit.Quota == 0:
		return storeRequest{rule.Charge, hits, alwaysOver}
	case hits == 0:
		return storeRequest{rule.Peek, 0, asAnswered}
	case hits > limit.Quota && limit.CountRefused && limit.Algorithm != slidegate.TokenBucket:
		return storeRequest{rule.Charge, hits, alwaysOver}
	}
	return storeRequest{rule.Take, hits, asAnswered}
}
