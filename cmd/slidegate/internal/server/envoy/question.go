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

// The bounds of a request. Envoy makes descriptors of a route's configuration, so a request beyond them is a mistake.
const (
	MaxDescriptors = 64      // in a request
	MaxEntries     = 32      // in a descriptor
	MaxBytes       = 1 << 16 // keys and values of a descriptor together
)

// check returns what is wrong with a request by itself.
func check(request *rls.RateLimitRequest) error {
	switch n := len(request.GetDescriptors()); {
	case request.GetDomain() == "":
		return errors.New("envoy: domain: must not be empty")
	case n == 0:
		return errors.New("envoy: descriptors: there must be at least one")
	case n > MaxDescriptors:
		return fmt.Errorf("envoy: descriptors: there are %d, and at most %d may be", n, MaxDescriptors)
	}
	for i, descriptor := range request.GetDescriptors() {
		if n := len(descriptor.GetEntries()); n > MaxEntries {
			return fmt.Errorf("envoy: descriptors[%d].entries: there are %d, and at most %d may be", i, n, MaxEntries)
		}
		bytes := 0
		for _, entry := range descriptor.GetEntries() {
			bytes += len(entry.GetKey()) + len(entry.GetValue())
		}
		if bytes > MaxBytes {
			return fmt.Errorf("envoy: descriptors[%d].entries: they have %d bytes, and at most %d may be", i, bytes, MaxBytes)
		}
	}
	return nil
}

// hitsOf returns how many hits a descriptor adds. Its own number goes before the request's, and may be 0; the request's 0
// means that it says nothing, and then it is 1.
func hitsOf(request *rls.RateLimitRequest, descriptor *common.RateLimitDescriptor) int64 {
	if own := descriptor.GetHitsAddend(); own != nil {
		return int64(min(own.GetValue(), rule.MaxQuota)) // where counts saturate anyhow
	}
	return max(1, int64(request.GetHitsAddend()))
}

// overrideOf returns the limit that comes with a descriptor.
func overrideOf(limit *common.RateLimitDescriptor_RateLimitOverride) (override, error) {
	o := override{quota: limit.GetRequestsPerUnit(), multiplier: 1}
	unit := limit.GetUnit()
	if unit != typev3.RateLimitUnit_UNKNOWN { // the numbers of both enumerations are the same
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

// reading is how the answer of the store is to be read.
type reading uint8

const (
	asAnswered reading = iota // over if refused
	alwaysOver                // the hits exceed the limit by themselves
	neverOver                 // a refund
)

// ask is what the store is asked about a descriptor.
type ask struct {
	op      rule.Op
	cost    int64
	reading reading
}

// askFor decides what to ask about a descriptor so that the answer is what the original's counter would say: it adds the hits
// and is over if the sum exceeds the limit.
func (b *bound) askFor(hits int64, refund bool) ask {
	limit := b.limit.Rule()
	switch {
	case refund && hits > 0:
		return ask{rule.GiveBack, hits, neverOver}
	case refund:
		return ask{rule.Peek, 0, neverOver}
	case b.spec.limit.Quota == 0 && hits == 0: // over as soon as anything was counted
		return ask{rule.Peek, 1, asAnswered}
	case b.spec.limit.Quota == 0 && !limit.CountDenied:
		return ask{rule.Peek, 1, alwaysOver}
	case b.spec.limit.Quota == 0:
		return ask{rule.Charge, hits, alwaysOver}
	case hits == 0:
		return ask{rule.Peek, 0, asAnswered}
	case hits > limit.Quota && limit.CountDenied && limit.Algorithm != slidegate.TokenBucket:
		return ask{rule.Charge, hits, alwaysOver}
	}
	return ask{rule.Take, hits, asAnswered}
}
