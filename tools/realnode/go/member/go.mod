module realnode/member

go 1.26.0
