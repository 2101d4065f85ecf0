package grpclimit

import (
	"net/http"

	"google.golang.org/grpc/metadata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/policy"
)

// remaining returns the metadata that says what is left after a decision, as the RateLimit header fields of
// draft-ietf-httpapi-ratelimit-headers-11 do; nil if no limit decided or TellRemaining is off.
func (d *decider) remaining(v *policy.Verdict) metadata.MD {
	if d.items == nil || v.By != policy.ByLimits || v.Shadow || v.Ended() || v.Mistake() {
		return nil
	}
	h := http.Header{}
	httplimit.HeadersIETF.Write(h, d.items.Append(nil, v.Limits), &v.Decision)
	if h["Ratelimit"] == nil {
		return nil
	}
	return metadata.MD{"ratelimit": h["Ratelimit"], "ratelimit-policy": h["Ratelimit-Policy"]}
}

// checkNames returns an error if a limit has a name that cannot stand in the metadata.
func checkNames(limits []slidegate.Limit) (any, error) {
	for _, limit := range limits {
		if _, err := httplimit.NewHeaderItem(limit); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
