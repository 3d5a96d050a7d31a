module realnode/pause

go 1.26.0
