package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageConfig returns what the last stage of a Dockerfile sets, so that the images of the release cannot differ from it. It ignores COPY, and
// knows only the instructions that the file has.
func imageConfig(dockerfile string) (config v1.Config, err error) {
	_, stage, found := strings.Cut(dockerfile, "\nFROM scratch\n")
	if !found {
		return config, fmt.Errorf("deploy/Dockerfile: has no stage FROM scratch")
	}
	for line := range strings.Lines(stage) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "", "#", "COPY":
		case "USER":
			config.User = rest
		case "ENV":
			config.Env = append(config.Env, rest)
		case "EXPOSE":
			config.ExposedPorts = map[string]struct{}{}
			for port := range strings.FieldsSeq(rest) {
				config.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &config.Entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(rest), &config.Cmd)
		case "HEALTHCHECK":
			config.Healthcheck, err = healthcheck(rest)
		default:
			err = fmt.Errorf("tools/release does not know this instruction")
		}
		if err != nil {
			return config, fmt.Errorf("deploy/Dockerfile: %s: %w", strings.TrimSpace(line), err)
		}
	}
	return config, nil
}

// healthcheck parses the arguments of HEALTHCHECK: flags, then CMD and a list.
func healthcheck(text string) (*v1.HealthConfig, error) {
	flags, command, _ := strings.Cut(text, "CMD ")
	check := &v1.HealthConfig{}
	for flag := range strings.FieldsSeq(flags) {
		name, value, _ := strings.Cut(flag, "=")
		duration, err := time.ParseDuration(value)
		if err != nil {
			return nil, err
		}
		switch name {
		case "--interval":
			check.Interval = duration
		case "--timeout":
			check.Timeout = duration
		case "--start-period":
			check.StartPeriod = duration
		default:
			return nil, fmt.Errorf("tools/release does not know the flag %s", name)
		}
	}
	err := json.Unmarshal([]byte(command), &check.Test)
	check.Test = append([]string{"CMD"}, check.Test...)
	return check, err
}
