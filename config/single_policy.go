package config

import (
	"fmt"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/store"
)

// SinglePolicy returns a File for programs without a file: one policy, with the same limits for every key. In the service's settings,
// the URL of the store is used literally, without variables.
func SinglePolicy(name string, limits []slidegate.Limit, service Service) (*File, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("config: the policy %s has no limits; add at least one, such as 100/1m", errtext.Quote(name))
	}
	for _, limit := range limits {
		if err := adapter.Check(limit); err != nil {
			return nil, err
		}
	}
	if service.Store != "" {
		if err := checkStore(service.Store); err != nil {
			return nil, &options.Error{Package: "config", Option: "store", Err: err}
		}
	}
	if err := checkGroups(service.AddressGroups); err != nil {
		return nil, err
	}
	if service.Failure >= store.Modes {
		return nil, &options.Error{Package: "config", Option: "failure", Err: fmt.Errorf("unknown mode %d; use store.FailLocal, FailClosed, FailOptimistic or FailOpen", service.Failure)}
	}
	if service.Optimism != 0 {
		if err := checkOptimism(service.Optimism); err != nil {
			return nil, &options.Error{Package: "config", Option: "optimism", Err: err}
		}
	}
	return &File{Policies: []Policy{{Name: name, Key: fields.Default, Limits: limits}}, Service: service}, nil
}
