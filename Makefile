build:
	npx tsc
