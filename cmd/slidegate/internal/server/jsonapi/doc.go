// Package jsonapi serves the gate to clients as JSON over HTTP, under /v1. Responses contain the whole decision, in the
// body and in the RateLimit headers. Requests are read strictly: an unknown field, a number that is not an integer or a
// key that is not text is an error that says where it is and what to write instead. The OpenAPI 3.1 document served at
// /v1/openapi.json describes every request and response.
package jsonapi
