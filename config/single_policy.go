package config

import (
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config/errtext"
)

// SinglePolicy returns a File for programs without a file: one policy, with the same limits for every key. In the service's settings,
// the URL of the store is used literally, without variables.
func SinglePolicy(name string, limits []slidegate.Limit, service Service) (*File, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("config: the policy %s has no limits; add at least one, such as 100/1m", errtext.Quote(name))
	}
	for _, limit := range limits {
		if err := limit.Check(); err != nil {
			return nil, err
		}
	}
	if service.Store != "" {
		if err := checkStore(service.Store); err != nil {
			return nil, &OptionError{Package: "config", Option: "store", Err: err}
		}
	}
	if err := checkGroups(service.AddressGroups); err != nil {
		return nil, err
	}
	if service.Failure != "" && !slices.Contains(failures, service.Failure) {
		return nil, &OptionError{Package: "config", Option: "failure", Err: errtext.Unknown(service.Failure, "a failure mode", failures)}
	}
	if service.Optimism != 0 {
		if err := checkOptimism(service.Optimism); err != nil {
			return nil, &OptionError{Package: "config", Option: "optimism", Err: err}
		}
	}
	return &File{Policies: []Policy{{Name: name, Key: defaultKey, Limits: limits}}, Service: service}, nil
}
