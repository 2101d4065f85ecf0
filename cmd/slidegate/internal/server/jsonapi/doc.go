// Package jsonapi is the door of the service for everybody who can send JSON over HTTP: it asks the gate under /v1 and
// answers with the whole decision, in the body and in the RateLimit headers. What it reads is strict: an unknown field, a
// number that is no whole one, a key that is no text are errors that say where they stand and what to write instead. The
// OpenAPI 3.1 document that it serves at /v1/openapi.json describes every request and answer.
package jsonapi
