"""Election: the namespaces for which this process acts."""
